"""A folder that `hostbench idle` puts first on the path of a script's Python."""
