"""The pages of `hostbench dashboard`: a Streamlit app over the stored results."""
