"""Runs of the same: what they say never contradicts, and seldom changes. Noise by seed."""

import math

import numpy as np
import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.core.units import GB, MIB
from hostbench.report.answer import Answer
from hostbench.report.questions import answers
from hostbench.report.rows import Row
from hostbench.runner.plan import QUICK
from tests.conftest import SoakSeeds
from tests.repeats import UNDECIDED, Moved, moved, said

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

    def row(workload: str, seconds: float, **axes: AxisValue) -> Row:
        logs = math.log(seconds) + shared + rng.normal(0, sigma, num)
        launches = dict(enumerate(np.exp(logs).tolist()))
        case = Case.of(workload, {"device": "cpu", **axes})
        middle = float(np.median([*launches.values()]))
        return Row(
            family=case.family,
            workload=workload,
            case=str(case),
            axes={name: value for name, value in case.axes if name != "device"},
            device="cpu",
            status="ok",
            seconds=middle,
            nbytes=MIB,
            gb_per_s=MIB / middle / GB,
            launches=launches,
        )

    rows = [
        row(name, gain if memory == "pinned" else 1.0, nbytes=MIB, memory=memory, blocking=blocking)
        for name, memory, blocking in COPIES
    ]
    for name, seconds in PARTS.items():
        seconds *= gain if name == "copy_stream" else 1.0
        axes: dict[str, AxisValue] = {"batch_bytes": MIB, "memory": "pageable", "schedule": name}
        rows.append(row("overlap.pipeline", seconds, **axes))
    for ranks, seconds in RANKS.items():
        rows.append(row("collectives.all_reduce", seconds, num_ranks=ranks, nbytes=MIB))
    for fill, both in CLEAR.items():
        for place, seconds in zip(("cpu_then_move", "direct"), both, strict=True):
            rows.append(row("allocation.create", seconds, nbytes=MIB, fill=fill, place=place))
    return rows


@pytest.mark.parametrize("sigma", [0.003, 0.02, 0.05, 0.1, 0.3])
def test_repeated_runs_say_the_same(sigma: float, soak_seeds: SoakSeeds) -> None:
    """No pair of 20 says opposite things; at most 1 in 20 pairs has a difference once and once not.
    At 2 % of noise the interval is about as wide as what counts as the same: there an answer may be
    `same` in one run and undecided in the next."""
    found = moved([said(answers(measured(seed, sigma))) for seed in soak_seeds(20, 200)])
    assert [one.name for one in found if one.is_opposite] == []
    own = [one for one in found if one.is_answer]
    compared = [one for one in found if not one.is_answer]
    assert len(own) >= 6 and sum(one.num_pairs for one in own) >= 6 * 190
    for kind in (own, compared) if sigma != SAME_EDGE else ([_differing(one) for one in compared],):
        flips, pairs = sum(one.num_flips for one in kind), sum(one.num_pairs for one in kind)
        assert flips <= pairs / 20, [(one.name, one.words) for one in kind if one.num_flips]


def _differing(one: Moved) -> Moved:
    """With one word for what names no difference."""
    return Moved(
        name=one.name,
        words=tuple(UNDECIDED if word == "same" else word for word in one.words),
    )


@pytest.mark.parametrize(("gain", "sigma"), [(0.9, 0.02), (0.7, 0.05), (0.5, 0.3)])
def test_what_is_at_the_edge_is_never_contradicted(
    gain: float, sigma: float, soak_seeds: SoakSeeds
) -> None:
    """The launches of a quick run tell it in some runs, and in others not."""
    found = moved([said(answers(measured(n, sigma, gain))) for n in soak_seeds(20, 200)])
    assert [one.name for one in found if one.is_opposite] == []


def test_what_is_clear_is_decided() -> None:
    """Else saying nothing at all would pass."""
    found = answers(measured(1, 0.1))
    clear = [one for one in found if one.family == "allocation" and "faster" in one.verdict]
    assert len(clear) == 2


def test_how_answers_moved_is_counted() -> None:
    def answer(state: str) -> Answer:
        return Answer(family="f", workload="f.w", question="?", verdict="", state=state)  # type: ignore[arg-type]

    runs = [said([answer(state)]) for state in ("yes", "undecided", "yes", "no")]
    (one,) = moved(runs)
    assert (one.num_pairs, one.num_flips, one.is_opposite) == (6, 3, True)
    assert not Moved(name="?", words=("same", "faster")).is_opposite
