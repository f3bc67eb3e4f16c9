"""Published figures: what others measured on known GPUs, as a band behind a machine's own point.
They ship with the package, in `published.toml`."""

import re
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct, structs


class PublishedFigure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published figure; rates in GB/s (10**9 bytes per second), as they were published."""

    hardware: str
    words: tuple[str, ...]
    """The GPU's name must hold all of these as whole words; empty: no GPU is meant."""
    link: str
    direction: str
    """`host_to_device`, `device_to_host`, their sum `both_ways` and its parts `both_ways_...`,
    `between_devices`, `all_reduce`: bus bandwidth of large buffers over one machine's GPUs."""
    low_gb_per_s: float
    high_gb_per_s: float
    kind: Literal["measured", "floor"]
    """A floor is what an operator demands of a healthy machine, not what it reaches."""
    source: str
    note: str = ""
    band: bool = True
    """False for what a copy by torch is not comparable with, and for anomalies."""

    def __str__(self) -> str:
        """`55.06 GB/s for H200 (source)`, `23.9 to 26.4 GB/s for RTX 4090 (source)`."""
        low, high = f"{self.low_gb_per_s:.4g}", f"{self.high_gb_per_s:.4g}"
        rate = low if low == high else f"{low} to {high}"
        floor = "a floor of " if self.kind == "floor" else ""
        return f"{floor}{rate} GB/s for {self.hardware} ({self.source})"


@cache
def shipped() -> tuple[PublishedFigure, ...]:
    data = files("hostbench.limits").joinpath("published.toml").read_bytes()
    return msgspec.toml.decode(data, type=dict[str, tuple[PublishedFigure, ...]])["figure"]


def band(gpu_name: str | None, direction: str) -> PublishedFigure | None:
    """All that is published for that GPU and direction as one; floors where there is no more."""
    words = set(re.findall(r"[a-z0-9]+", (gpu_name or "").lower()))
    fitting = [
        figure
        for figure in shipped()
        if figure.band and figure.direction == direction
        if figure.words and words.issuperset(figure.words)
    ]
    chosen = [figure for figure in fitting if figure.kind == "measured"] or fitting
    if not chosen:
        return None
    return structs.replace(
        chosen[0],
        hardware=" / ".join(dict.fromkeys(figure.hardware for figure in chosen)),
        low_gb_per_s=min(figure.low_gb_per_s for figure in chosen),
        high_gb_per_s=max(figure.high_gb_per_s for figure in chosen),
        source=", ".join(dict.fromkeys(figure.source for figure in chosen)),
    )
