"""What scripts/dashboard-speed holds the dashboard against: a title, a choice, one chart."""

import random

import altair as alt
import pandas as pd
import streamlit as st

st.title("One chart")
name = st.selectbox("Series", ["first", "second"])
noise = random.Random(name)
points = pd.DataFrame({"x": range(500), "y": [noise.gauss(1, 0.1) for _ in range(500)]})
st.altair_chart(alt.Chart(points).mark_line().encode(x="x", y="y"))
