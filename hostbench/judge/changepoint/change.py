"""What the detector says, and how strict it is."""

import math
import sys
from dataclasses import dataclass
from typing import Literal

Certainty = Literal["provisional", "confirmed"]
Kind = Literal["step", "temporary", "break"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event in a series."""

    index: int
    """The first point at the new level, counted with the missing points."""
    effect: float
    """Relative change of the seconds: 0.05 is 5 % slower, negative is faster."""
    state: Certainty
    """provisional: from the last few points alone, worth a measurement more; or a temporary event
    that may still turn out to be one visit of many. Else confirmed."""
    kind: Kind = "step"
    """temporary: up and down again, folded into one event. break: a baseline reset, a known change
    of what is measured, passed in by the caller; levels on its two sides are not compared."""
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
class Strictness:
    """The thresholds that are others for a machine's common mode (machine.py)."""

    threshold: float = 4.0
    """Standard errors that a change must reach between segments of SETTLED points or more."""
    left_by_second_state: float = 1 / 3
    """Share of the changes of level that a second state may leave, to be believed; always one."""


OF_A_SERIES = Strictness()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The events of one series, and how small an event it could have shown."""

    changes: tuple[Change, ...] = ()
    judged: bool = False
    """Whether any piece, from one baseline reset to the next, had enough points."""
    noise: float | None = None
    """Standard deviation of the logarithm from point to point in the last piece; None where that
    has too few points."""
    detectable: float | None = None
    """Smallest relative change that 20 points after it would confirm; None where `noise` is."""
