"""Published figures: what others measured on known GPUs, as a band behind a machine's own point.

The package ships `published.toml`; `results/published.toml`, of the same form, adds to it.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from hostbench.core.errors import Warn
from hostbench.core.files import read_stored
from hostbench.core.toml import convert_toml, refuse

FILE = "published.toml"
Direction = Literal[
    "host_to_device",
    "device_to_host",
    "both_ways",
    "both_ways_host_to_device",
    "both_ways_device_to_host",
    "between_devices",
    "all_reduce",
]
"""`both_ways` is the sum of both directions; `both_ways_...` is that direction's part of it;
`all_reduce` is the bus bandwidth of large buffers over the GPUs of one machine."""
FigureKind = Literal["measured", "floor"]
"""A floor is what an operator demands of a healthy machine, not what it reaches."""

Text = Annotated[str, Meta(pattern=r"\S", description="text")]
PositiveRate = Annotated[float, Meta(gt=0, le=1e300, description="a positive number")]
OneWord = Annotated[
    str, Meta(pattern=r"^[a-z0-9]+\Z", description="a word of small letters and digits")
]


class PublishedFigure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published figure; rates in GB/s (10**9 bytes per second), as they were published."""

    hardware: Text
    words: Annotated[
        tuple[OneWord, ...], Meta(description='a list of lower-case words, as in ["rtx", "4090"]')
    ]
    """The GPU's name must hold all of these as whole words; empty: no GPU is meant."""
    link: Text
    direction: Direction
    low_gb_per_s: PositiveRate
    high_gb_per_s: PositiveRate
    kind: FigureKind
    source: Text
    note: str = ""
    band: bool = True
    """False for what a copy by torch is not comparable with, and for anomalies."""

    def __post_init__(self) -> None:
        if self.low_gb_per_s > self.high_gb_per_s:
            refuse(
                "low_gb_per_s", self.low_gb_per_s, f"at most high_gb_per_s, {self.high_gb_per_s}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """What is published for one GPU and direction; a floor only where nobody published more."""

    hardware: str
    low_gb_per_s: float
    high_gb_per_s: float
    kind: str
    sources: tuple[str, ...]

    def __str__(self) -> str:
        """`55.06 for H200 (source)`, `23.9 to 26.4 for RTX 4090 (source)`."""
        low, high = f"{self.low_gb_per_s:.4g}", f"{self.high_gb_per_s:.4g}"
        rate = low if low == high else f"{low} to {high}"
        floor = "a floor of " if self.kind == "floor" else ""
        return f"{floor}{rate} GB/s for {self.hardware} ({', '.join(self.sources)})"


def load(results: Path, warn: Warn) -> tuple[PublishedFigure, ...]:
    """The shipped figures and the user's. What cannot be read of the user's is a warning."""
    path = results / FILE
    try:
        entries = _entries(read_stored(path, results))
    except FileNotFoundError:
        return shipped()
    except (OSError, ValueError, TypeError, RecursionError) as error:
        warn(f"{path} is no list of figures ({error}): mend it; the shipped figures stand alone")
        return shipped()
    figures = [*shipped()]
    for number, entry in enumerate(entries, 1):
        try:
            figures.append(convert_toml(entry, PublishedFigure))
        except ValueError as error:
            warn(f"{path}: figure {number}: {error}: mend it; it is left out, the others stand")
    return tuple(figures)


@cache
def shipped() -> tuple[PublishedFigure, ...]:
    """The figures that travel with the package."""
    raw = files("hostbench.limits").joinpath(FILE).read_bytes()
    return tuple(convert_toml(entry, PublishedFigure) for entry in _entries(raw))


def band(figures: Iterable[PublishedFigure], gpu_name: str | None, direction: str) -> Band | None:
    """What is published for that GPU and direction, or None."""
    words = set(_words(gpu_name or ""))
    fitting = [
        figure
        for figure in figures
        if figure.band
        and figure.words
        and figure.direction == direction
        and words.issuperset(figure.words)
    ]
    chosen = [figure for figure in fitting if figure.kind == "measured"] or fitting
    if not chosen:
        return None
    return Band(
        hardware=" / ".join(dict.fromkeys(figure.hardware for figure in chosen)),
        low_gb_per_s=min(figure.low_gb_per_s for figure in chosen),
        high_gb_per_s=max(figure.high_gb_per_s for figure in chosen),
        kind=chosen[0].kind,
        sources=tuple(dict.fromkeys(figure.source for figure in chosen)),
    )


def _words(text: str) -> list[str]:
    return "".join(sign if sign.isalnum() else " " for sign in text.lower()).split()


def _entries(raw: bytes) -> list[Any]:
    entries = tomllib.loads(raw.decode()).get("figure", [])
    if not isinstance(entries, list):
        raise TypeError("`figure` must be a list: write [[figure]] above each")
    return entries
