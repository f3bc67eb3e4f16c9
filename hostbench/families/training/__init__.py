"""training: what training over ranks does with what the other families measure."""

KINDS = ("parameter", "gradient", "optimizer")
"""Of what a rank holds."""
