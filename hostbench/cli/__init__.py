"""The command line: `hostbench COMMAND`. Importing it touches none of torch, numpy, pandas."""

from hostbench.cli.entry import main

__all__ = ["main"]
