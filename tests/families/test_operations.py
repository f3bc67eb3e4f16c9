"""The table of collectives over real ranks of gloo: what each proof finds."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hostbench.core.case import AxisValue
from hostbench.device.base import Device
from hostbench.families.exchange import Exchange, arrivals
from hostbench.families.operations import OPERATIONS, ROOT, nccl_sends
from hostbench.measure import measure, workload
from hostbench.measure.measure import BRIEF, Prepared
from hostbench.measure.workload import Workload
from hostbench.ranks.lockstep import Ranks

NUM_RANKS = (2, 4)
WITH_DATA = [name for name in OPERATIONS if name != "barrier"]
Wrong = list[str | None]
"""By rank."""


def in_group(num_ranks: int, what: str) -> Any:
    """What `WORKS[what](rank, num_ranks)` returns on each rank, as JSON."""

    def build(device: Device, num_ranks: int) -> Prepared:
        by_rank = [None] * num_ranks
        dist.all_gather_object(by_rank, WORKS[what](dist.get_rank(), num_ranks))
        return Prepared(step=lambda: None, findings=lambda: {"by_rank": json.dumps(by_rank)})

    axes: Mapping[str, tuple[AxisValue, ...]] = {"device": ("cpu",), "num_ranks": (num_ranks,)}
    per_case = {"ranks": num_ranks}
    work = Workload(name=f"proofs.{what}", axes=axes, version="1", build=build, per_case=per_case)
    with pytest.MonkeyPatch.context() as patch, closing(Ranks(60.0)) as pool:
        patch.setitem(workload.REGISTRY, work.name, work)
        patch.setattr(measure, "MIN_SAMPLES", 1)
        return json.loads(str(pool.measure(work, next(work.cases()), BRIEF).findings["by_rank"]))


def corrupt(mine: Exchange) -> None:
    """One element."""
    mine.result[mine.result.numel() // 2] += 1


def swap_shards(mine: Exchange) -> None:
    """The first two blocks of what this rank has got; of the one that it got, its halves."""
    length = mine.result.numel() // max(2, len(mine.expected))
    first = mine.result[:length].clone()
    mine.result[:length] = mine.result[length : 2 * length]
    mine.result[length : 2 * length] = first


def contribute(mine: Exchange, *, nothing: bool) -> None:
    """Before the call: of this rank nothing comes, or the share of the last rank."""
    contribution = mine.given if mine.row.given else mine.result
    share = mine.pattern.tensor([(mine.pattern.num_ranks - 1, 0, len(contribution))])
    contribution.copy_(torch.zeros_like(share) if nothing else share)


BEFORE = {"dropped": True, "taken for another": False}
AFTER = {"corrupted": corrupt, "swapped": swap_shards}
CHECKS = ("float32", "bfloat16", "not called", "odd not called", *BEFORE, *AFTER)


def corrupted_rank(name: str, num_ranks: int) -> int:
    """The last one that has a result."""
    return ROOT if name in ("reduce", "gather") else num_ranks - 1


def outcomes(rank: int, num_ranks: int) -> dict[str, str | None]:
    """`operation, what was done to it, on one rank` -> what this rank's proof says."""
    results: dict[str, str | None] = {}
    for name in WITH_DATA:
        for check in CHECKS:
            dtype = "bfloat16" if check == "bfloat16" else "float32"
            mine = Exchange(name, 16384, dtype)
            mine.refill()
            if check in BEFORE and rank == ROOT:  # all operations need something of it
                contribute(mine, nothing=BEFORE[check])
            if check != "not called":
                mine.call()
            if check in AFTER and rank == corrupted_rank(name, num_ranks):
                AFTER[check](mine)
            if check == "odd not called":
                mine.row = mine.row._replace(call=lambda dist, mine: int)
            results[f"{name}, {check}"] = proof_of(mine)
            dist.barrier()
    store, numbers = dist.distributed_c10d._get_default_store(), itertools.count()

    def wait_for_root() -> None:
        key = f"root {next(numbers)}"
        store.add(key, 1) if rank == ROOT else store.wait([key])

    barriers: dict[str, Callable[[], object]] = {
        "float32": dist.barrier,
        "not called": int,
        "for the root alone": wait_for_root,
    }
    for check, barrier in barriers.items():
        mine = Exchange("barrier", 0)
        mine.call = barrier
        results[f"barrier, {check}"] = proof_of(mine)
    return results


def proof_of(mine: Exchange) -> str | None:
    """What the workload has as its proof."""
    verify = mine.prepared().verify
    assert verify is not None
    return verify()


def late_by_rank(rank: int, num_ranks: int) -> Mapping[str, object]:
    """Each rank comes 1 ms after the one before, and all leave 5 ms after the first one came."""
    steps_ns = range(0, 90_000_000, 30_000_000)
    return arrivals([(start + 1_000_000 * rank, start + 5_000_000) for start in steps_ns])


WORKS: Mapping[str, Callable[[int, int], object]] = {"outcomes": outcomes, "late": late_by_rank}


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
def test_transfer_and_waiting_are_told_apart_and_who_is_late(num_ranks: int) -> None:
    for findings in in_group(num_ranks, "late"):
        assert findings == {
            "transfer_s": pytest.approx(0.006 - 0.001 * num_ranks),
            "waiting_s": pytest.approx(0.001 * (num_ranks - 1)),
            "last_rank": f"rank {num_ranks - 1}",
            "late_rank_named": True,
        }


@pytest.fixture(scope="module", params=NUM_RANKS)
def answers(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Wrong]]:
    by_rank = in_group(request.param, "outcomes")
    yield lambda name, check: [mine[f"{name}, {check}"] for mine in by_rank]


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_was_done_passes_on_every_rank(
    answers: Callable[[str, str], Wrong], name: str
) -> None:
    for check in ("float32", "bfloat16") if name != "barrier" else ("float32",):
        assert set(answers(name, check)) == {None}, check


@pytest.mark.parametrize("name", OPERATIONS)
def test_doing_nothing_fails(answers: Callable[[str, str], Wrong], name: str) -> None:
    """Also of a count alone that no number of ranks divides."""
    assert any(answers(name, "not called"))
    less = "for the root alone" if name == "barrier" else "odd not called"
    wrong = [text for text in answers(name, less) if text]
    assert wrong and (name == "barrier" or all(text.startswith("of ") for text in wrong))


@pytest.mark.parametrize("name", WITH_DATA)  # barrier carries nothing that could be wrong
@pytest.mark.parametrize("check", [*BEFORE, *AFTER])
def test_wrong_data_fails(answers: Callable[[str, str], Wrong], name: str, check: str) -> None:
    """What one rank's result lacks shows there alone."""
    wrong = answers(name, check)
    failed = [rank for rank, text in enumerate(wrong) if text]
    assert failed == [corrupted_rank(name, len(wrong))] if check in AFTER else failed
    assert all(text is None or text.startswith("element ") for text in wrong)


FACTORS = {
    "all_reduce": 2 * 7 / 8, "broadcast": 1, "reduce": 1, "all_gather_into_tensor": 7 / 8,
    "reduce_scatter_tensor": 7 / 8, "all_to_all_single": 7 / 8, "all_to_all_uneven": 8 / 9,
    "gather": 7 / 8, "scatter": 7 / 8, "barrier": 0,
}  # fmt: skip


@pytest.mark.parametrize(("name", "factor"), FACTORS.items())
def test_the_factor_of_the_bus_bandwidth_is_that_of_nccl_tests(name: str, factor: float) -> None:
    assert OPERATIONS[name].factor(8) == pytest.approx(factor, rel=1e-15)


@pytest.mark.parametrize(
    ("name", "chosen", "share"),
    [
        ("all_reduce", "RING SIMPLE", 1.75),
        ("all_reduce", "NVLS SIMPLE", 1.125),
        ("reduce_scatter_tensor", "RING LL", 1.75),
        ("all_gather_into_tensor", "RING LL128", 7 / 8 * 128 / 120),
        ("all_gather_into_tensor", "NVLS SIMPLE", None),
        ("broadcast", "RING SIMPLE", None),
        ("all_reduce", "RING SIMPLE, TREE LL", None),
        ("all_reduce", None, None),
    ],
)
def test_what_each_of_eight_ranks_sends_by_nccl(
    name: str, chosen: str | None, share: float | None
) -> None:
    assert nccl_sends(name, 8, chosen) == (share and pytest.approx(share))
