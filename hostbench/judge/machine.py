"""The series of one machine: what they do together is its own event, told from each one's changes.

Rows are series of one machine on the logarithm, columns the same commits; NaN is missing.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostbench.judge.change import Judgement, Options
from hostbench.judge.detector import judge
from hostbench.judge.levels import Floats
from hostbench.judge.mode import common_mode, of_machine, seen


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMachine:
    """One machine's series, judged."""

    own: tuple[Judgement, ...]
    """Of each series, with the common mode taken out."""
    common: Judgement | None
    """Of the machine itself; None with too few series to tell."""


def judge_machine(
    series: Sequence[Floats],
    options: Options,
    breaks: Sequence[Sequence[int]] | None = None,
) -> JudgedMachine:
    """Judge the series of one machine: its own events, and each series' without them.

    Series are matched by place: the first points of all are the same commit. With fewer than
    `min_series_of_machine` series nothing is taken out, for then one series' own change would be
    taken for the machine's; at a place where fewer have a point the machine is as it was before.
    """
    if len(series) < options.min_series_of_machine or not any(len(one) for one in series):
        return JudgedMachine(own=tuple(judge(series, options, breaks)), common=None)
    rows, owners = _rows(series, breaks)
    few = np.isfinite(rows).sum(axis=0) < options.min_series_of_machine
    told = np.where(few, np.nan, rows)
    shared, mode = common_mode(told, options)
    if not np.any(mode):
        return JudgedMachine(own=tuple(judge(series, options, breaks)), common=_nothing())
    shared = shared[:, _last_told(few)]
    own = [np.array(logs) for logs in series]
    for row, owner, taken in zip(rows, owners, shared, strict=True):
        places = np.flatnonzero(~np.isnan(row))
        own[owner][places] -= taken[places]
    (common,) = judge([seen(told, mode)], of_machine(options))
    return JudgedMachine(own=tuple(judge(own, options, breaks)), common=common)


def _rows(
    series: Sequence[Floats], breaks: Sequence[Sequence[int]] | None
) -> tuple[Floats, list[int]]:
    """A row for each stretch between breaks, and whose it is: here too the levels on the two sides
    of a break are not held against each other."""
    length, rows, owners = max(len(s) for s in series), [], []
    for owner, logs in enumerate(series):
        own = breaks[owner] if breaks else ()
        edges = sorted({0, len(logs), *(b for b in own if 0 < b < len(logs))})
        for start, end in itertools.pairwise(edges):
            row = np.full(length, np.nan)
            row[start:end] = logs[start:end]
            rows.append(row)
            owners.append(owner)
    return np.array(rows), owners


def _last_told(few: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """For each place the last one, up to it, where enough series have a point; else the first."""
    places = np.where(few, int(np.argmin(few)), np.arange(len(few)))
    latest: npt.NDArray[np.int64] = np.maximum.accumulate(places)
    return latest


def _nothing() -> Judgement:
    """Of a mode that never moves: there is nothing to judge."""
    return Judgement(changes=(), judged=False, noise=None, detectable=None)
