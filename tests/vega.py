"""Whether a specification is one that Vega-Lite knows."""

from typing import Any


def check(spec: dict[str, Any]) -> None:
    """By the schema that altair brings. Raises jsonschema's ValidationError."""
    import altair  # a third of a second that few files need

    altair.LayerChart.validate(spec)
