"""What a family asks of its cases, as data: hostbench.report answers it, the dashboard draws it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A question as curves over machines and runs."""

    name: str
    title: str
    workloads: tuple[str, ...]
    x: tuple[str, ...] = ("nbytes",)
    units: tuple[str, ...] = ("GB/s", "time")
    usual: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Axis -> the values that are drawn unless others are chosen, those first that a small picture
    shows alone; but of schedules it shows all."""
    has_card: bool = False
    """Whether the first page shows it."""
