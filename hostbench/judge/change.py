"""What the detector says, and the settings it says it by."""

import math
import sys
from dataclasses import dataclass
from typing import Literal

State = Literal["provisional", "confirmed"]
Kind = Literal["step", "temporary", "break"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event in a series."""

    index: int
    """The first point at the new level, counted with the missing points."""
    effect: float
    """Relative change of the seconds: 0.05 is 5 % slower, negative is faster."""
    state: State
    """provisional: from the last few points alone, worth a measurement more; or a temporary event
    that may still turn out to be one visit of many. Else confirmed."""
    kind: Kind = "step"
    """temporary: up and down again, folded into one event. break: a known change of what is
    measured, passed in by the caller; levels on its two sides are not held against each other."""
    until: int | None = None
    """Of a temporary event, the first point back at the old level; else None."""
    slack: int = 0
    """Points by which the place of a confirmed step may be off, with 99 % of the probability where
    the noise of neighbouring points is independent."""

    @property
    def height(self) -> float:
        """The effect as a difference of logarithms; a fall to nothing stays finite."""
        return math.log1p(max(self.effect, -1 + sys.float_info.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Every threshold of the detector. `noise` is the standard deviation from point to point of the
    logarithm; docs/detector.md has the formulas."""

    min_effect: float = 0.015
    """Nothing smaller is reported, as a difference of logarithms."""
    penalty: float = 9.0
    """What a change of level costs the first stage, in units of squared noise over two."""
    threshold: float = 4.0
    """Standard errors that a change must reach between segments of SETTLED points or more."""
    min_points: int = 8
    """Points at the new and at the old level before a change can be confirmed."""
    min_gain: float = 8.0
    """Points' worth of bounded loss that splitting the two segments must save."""
    left_by_second_state: float = 1 / 3
    """Share of the changes of level that a second state may leave, to be believed; always one."""
    line_margin: float = 6.0
    """Squared noise over two by which a step must fit better than a straight line."""
    temporary_points: tuple[int, int] = (7, 24)
    """Shortest and longest temporary event that is reported."""
    temporary_effect: float = 0.02
    """The smallest temporary event that is reported, as a difference of logarithms."""
    tail_threshold: float = 4.0
    """Standard errors that the last 3 points or more must be off for a provisional change."""
    tail_effect: float = 0.02
    """The smallest provisional change, as a difference of logarithms."""
    min_series_of_machine: int = 6
    """With fewer series of a machine its common mode is not told from their own changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The events of one series, and how small an event it could have shown."""

    changes: tuple[Change, ...]
    judged: bool
    """Whether any piece, from break to break, had enough points."""
    noise: float | None
    """Standard deviation of the logarithm from point to point in the last piece; None where that
    has too few points."""
    detectable: float | None
    """Smallest relative change that 20 points after it would confirm; None where `noise` is."""
