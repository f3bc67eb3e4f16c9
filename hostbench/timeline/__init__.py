"""Pictures of time: lanes as SVG, and as a trace that Perfetto and chrome://tracing open."""

from hostbench.timeline.chrome import chrome_trace, read_trace
from hostbench.timeline.picture import svg

__all__ = ["chrome_trace", "read_trace", "svg"]
