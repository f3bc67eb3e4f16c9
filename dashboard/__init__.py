"""The Streamlit dashboard; carried by the wheel as hostbench._dashboard.

Streamlit puts this folder on sys.path, so the files import each other by plain names.
"""
