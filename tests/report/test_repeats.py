"""Runs of the same: what they say never contradicts, and seldom changes. Noise by seed."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from hostbench.core.units import MIB
from hostbench.families.question import Row
from hostbench.report.questions import answers
from hostbench.runner.plan import QUICK
from tests.answers import row
from tests.conftest import SoakSeeds

BETWEEN = " | "

COPIES = [
    ("transfer.host_to_device", memory, blocking)
    for memory in ("pageable", "pinned")
    for blocking in (True, False)
]
PARTS = {"serial": 2.0, "copy_stream": 2.0, "copy_only": 1.0, "compute_only": 1.0}
RANKS = {2: 1.0, 4: 1.5}
"""Of one bus bandwidth."""
SAME_EDGE = 0.02
CLEAR = {"empty": (1.0, 1e-4), "zeros": (1.0, 2e-4), "randn": (1.0, 1e-4)}


def measured(seed: int, sigma: float, gain: float = 1.0, num: int = QUICK.launches) -> list[Row]:
    """One run: every launch has what the machine did in it, and each case its own noise. Nothing
    differs but what is created in two places, by far; and what would gain something, by `gain`."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, sigma, num)

    def case(workload: str, seconds: float, **axes: Any) -> Row:
        logs = math.log(seconds) + shared + rng.normal(0, sigma, num)
        launches = dict(enumerate(np.exp(logs).tolist()))
        middle = float(np.median([*launches.values()]))
        return row(middle, workload=workload, device="cpu", launches=launches, **axes)

    rows = [
        case(name, gain if memory == "pinned" else 1.0, memory=memory, blocking=blocking)
        for name, memory, blocking in COPIES
    ]
    for name, seconds in PARTS.items():
        seconds *= gain if name == "copy_stream" else 1.0
        axes = {"nbytes": None, "batch_bytes": MIB, "memory": "pageable", "schedule": name}
        rows.append(case("overlap.pipeline", seconds, **axes))
    for ranks, seconds in RANKS.items():
        rows.append(case("collectives.all_reduce", seconds, num_ranks=ranks))
    for fill, both in CLEAR.items():
        for place, seconds in zip(("cpu_then_move", "direct"), both, strict=True):
            rows.append(case("allocation.create", seconds, fill=fill, place=place))
    return rows


def said(seed: int, sigma: float, gain: float = 1.0) -> dict[str, str]:
    """What a run says: question -> its state; question and figure -> the verdict beside another."""
    words: dict[str, str] = {}
    for answer in answers(measured(seed, sigma, gain)):
        words[answer.question] = answer.state
        for figure in answer.figures:
            if figure.conclusion is not None:
                words[f"{answer.question}{BETWEEN}{figure.label}"] = figure.conclusion.verdict
    return words


def over_runs(runs: list[dict[str, str]]) -> dict[str, list[str]]:
    """Each answer and comparison -> its words in the runs that have it; none is contradicted."""
    names = dict.fromkeys(name for run in runs for name in run)
    words = {name: [run[name] for run in runs if name in run] for name in names}
    opposites = ({"faster", "slower"}, {"yes", "no"})
    assert [name for name, own in words.items() if any(o <= set(own) for o in opposites)] == []
    return words


def share_of_flips(all_words: list[list[str]]) -> float:
    """Of all pairs of runs: those of which one decides and the other does not."""
    pairs = [pair for words in all_words for pair in combinations(words, 2)]
    return sum((a == "undecided") != (b == "undecided") for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("sigma", [0.003, 0.02, 0.05, 0.1, 0.3])
def test_repeated_runs_say_the_same(sigma: float, soak_seeds: SoakSeeds) -> None:
    """No pair of 20 says opposite things; at most 1 in 20 pairs has a difference once and once not.
    At 2 % of noise the interval is about as wide as what counts as the same: there an answer may be
    `same` in one run and undecided in the next."""
    words = over_runs([said(seed, sigma) for seed in soak_seeds(20, 200)])
    own = [words[name] for name in words if BETWEEN not in name]
    compared = [words[name] for name in words if BETWEEN in name]
    assert sum(map(len, own)) >= 6 * 20
    if sigma == SAME_EDGE:
        compared = [["undecided" if w == "same" else w for w in one] for one in compared]
        own = compared
    assert share_of_flips(own) <= 1 / 20 and share_of_flips(compared) <= 1 / 20


@pytest.mark.parametrize(("gain", "sigma"), [(0.9, 0.02), (0.7, 0.05), (0.5, 0.3)])
def test_what_is_at_the_edge_is_never_contradicted(
    gain: float, sigma: float, soak_seeds: SoakSeeds
) -> None:
    """The launches of a quick run tell it in some runs, and in others not."""
    over_runs([said(seed, sigma, gain) for seed in soak_seeds(20, 200)])


def test_what_is_clear_is_decided() -> None:
    """Else saying nothing at all would pass."""
    about = [own for own in answers(measured(1, 0.1)) if own.family == "allocation"]
    clear = [figure for own in about for figure in own.figures if "faster" in figure.against]
    assert len(clear) == 2
