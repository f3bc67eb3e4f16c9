"""The packages of the wheel. hostbench/ as it is found, so that a new family needs no list here;
dashboard/ and benchmarks/ inside it, never as top-level names (pyproject.toml maps them)."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["hostbench", "hostbench.*"]),
        "hostbench._benchmarks",
        "hostbench._dashboard",
        "hostbench._dashboard.views",
        "hostbench._docs",
    ]
)
