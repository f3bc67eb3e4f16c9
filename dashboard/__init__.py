"""The Streamlit dashboard; carried by the wheel as hostbench._dashboard."""
