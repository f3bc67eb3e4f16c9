"""Sets of time on one line: disjoint intervals in order, as two columns of starts and ends."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hostbench.core.arrays import Floats

Ints = NDArray[np.int64]


class Intervals(NamedTuple):
    """Disjoint, in order of time."""

    starts: Floats
    ends: Floats

    @property
    def length(self) -> float:
        return float((self.ends - self.starts).sum())

    def have(self, moments: Floats) -> NDArray[np.bool_]:
        """Whether each moment lies in one of them."""
        indices = np.searchsorted(self.starts, moments, side="right") - 1
        return moments < np.append(self.ends, -np.inf)[indices]

    def before(self, moments: Floats) -> Floats:
        """How much of them lies before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments))
        whole = np.concatenate([[0.0], np.cumsum(self.ends - self.starts)])
        index = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(index - 1, 0)
        inside = np.minimum(moments, self.ends[last]) - self.starts[last]
        return np.where(index > 0, whole[last] + inside, 0.0)

    def within(self, starts: Floats, ends: Floats) -> Floats:
        """How much of them lies in each of these."""
        return self.before(ends) - self.before(starts)


def spanned(rows: pd.DataFrame) -> Intervals:
    """The time in which any of these rows of a trace ran."""
    return union(rows["start_s"], rows["end_s"])[0]


def union(begins: ArrayLike, until: ArrayLike, *, joins: bool = True) -> tuple[Intervals, Ints]:
    """The time in which anything ran, and for each interval which of the given began it. Of two
    that touch it makes one, if it `joins`."""
    starts, ends = np.asarray(begins), np.asarray(until)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    latest = np.maximum.accumulate(ends) if len(ends) else ends
    is_first = np.ones(len(starts), bool)
    is_first[1:] = starts[1:] > latest[:-1] if joins else starts[1:] >= latest[:-1]
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(starts))[: len(firsts)] - 1
    return Intervals(starts[firsts], latest[lasts]), order[firsts]
