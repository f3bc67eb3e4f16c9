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

    def index_of(self, moments: ArrayLike) -> Ints:
        """Which of them each moment lies in; -1: in none."""
        indices = np.searchsorted(self.starts, moments, side="right") - 1
        return np.where(moments < np.append(self.ends, -np.inf)[indices], indices, -1)

    def within(self, starts: ArrayLike, ends: ArrayLike) -> Floats:
        """How much of them lies between each start and its end."""
        return self._before(ends) - self._before(starts)

    def _before(self, moments: ArrayLike) -> Floats:
        if not len(self.starts):
            return np.zeros(len(np.asarray(moments)))
        index = np.maximum(np.searchsorted(self.starts, moments, side="right") - 1, 0)
        whole = np.concatenate([[0.0], np.cumsum(self.ends - self.starts)])
        inside = np.minimum(moments, self.ends[index]) - self.starts[index]
        return whole[index] + np.maximum(inside, 0.0)


def union(rows: pd.DataFrame, *, joins: bool = True) -> tuple[Intervals, Ints]:
    """The time in which any of these rows of a trace ran, and for each interval the position of the
    row that began it. Of two that touch it makes one, if it `joins`."""
    starts, ends = rows["start_s"].to_numpy(), rows["end_s"].to_numpy()
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    latest = np.maximum.accumulate(ends) if len(ends) else ends
    is_first = np.ones(len(starts), bool)
    is_first[1:] = starts[1:] > latest[:-1] if joins else starts[1:] >= latest[:-1]
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(starts))[: len(firsts)] - 1
    return Intervals(starts[firsts], latest[lasts]), order[firsts]
