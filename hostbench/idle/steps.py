"""The steps that a trace marks: how long they are, what lies in them, and what before the first."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostbench.core.arrays import Floats
from hostbench.idle.host import Host
from hostbench.idle.intervals import Intervals, union
from hostbench.idle.trace import NONE, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedSteps:
    """Of one process, in the order of time. What bears the same number is one step."""

    starts: Floats
    ends: Floats
    done: Floats
    """When devices were done with what was launched in each; its end, where that is later."""

    @property
    def num(self) -> int:
        return len(self.starts)

    @property
    def length_s(self) -> float:
        return float((self.ends - self.starts).sum())

    def have(self, moments: Floats) -> NDArray[np.bool_]:
        """Whether each lies in a step."""
        return Intervals(self.starts, self.ends).have(moments)

    def cover_s(self, start_s: float, end_s: float) -> float:
        """How much of this time the steps take, up to when devices were done with them."""
        covered, _ = union(self.starts, self.done)
        return float(covered.within(np.array([start_s]), np.array([end_s]))[0])

    def before(self, first_work_s: float) -> Intervals:
        """What the host did from the start of the first step until a device's first work."""
        start_s = min(self.starts.min(initial=np.inf), first_work_s)
        return Intervals(np.array([start_s]), np.array([first_work_s]))


def steps_of(trace: Trace, host: Host) -> MarkedSteps:
    rows = [trace.steps[:2, trace.steps[2] == each] for each in np.unique(trace.steps[2])]
    rows.sort(key=lambda row: float(row[0].min()))
    starts = np.array([row[0].min() for row in rows])
    ends = np.array([row[1].max() for row in rows])
    steps = MarkedSteps(starts=starts, ends=ends, done=ends.copy())
    known = np.flatnonzero(host.launch != NONE)
    called = trace.calls[0, host.launch[known]]
    inside = steps.have(called)
    places = np.searchsorted(starts, called[inside], side="right") - 1
    np.maximum.at(steps.done, places, trace.work[1, known[inside]])
    return steps
