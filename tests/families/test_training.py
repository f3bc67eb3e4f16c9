"""The family training over real ranks of gloo: its proofs pass, and each fault that is put in fails
those that see it, or is blamed on a rank.

What it takes of torch is imported in the tests: it takes three seconds, in each test process.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from hostbench import families
from hostbench.core.case import AxisValue, Case
from hostbench.core.errors import RankFailure, Unavailable
from hostbench.core.records import Measurement
from hostbench.families import load
from hostbench.measure import measure, workload
from hostbench.measure.measure import BRIEF
from hostbench.ranks.lockstep import Ranks
from hostbench.runner import server
from tests.conftest import SOAK

WORKLOADS = load(("training",))
MOST_RANKS = 4 if SOAK else 2
BETWEEN = {"bucket_cap_mb": (5, 25), "micro_batches": (2, 4)}
"""Numbers that only `make soak` tries, as it does four ranks."""


def is_tried(case: Case) -> bool:
    axes = case.values
    ends = (axes.get(name) not in numbers for name, numbers in BETWEEN.items())
    return axes["device"] == "cpu" and int(axes["num_ranks"]) <= MOST_RANKS and (SOAK or all(ends))


CASES = sorted(
    (case for work in WORKLOADS.values() for case in work.cases() if is_tried(case)),
    key=lambda case: int(case.values["num_ranks"]),
)
SMALL = {"LAYERS": (32, 4, 256), "BLOCK": (32, 0, 256)}
"""Rows, layers and width in place of those that are measured, but in `make soak`."""
FOUR = {"replicas", "sent", "memory", "parity"}
SHARED = {"fsdp2", "tensor_parallel"}
"""Of these each rank has a part of its own of everything: there are no replicas."""


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> Iterator[None]:
    """As the server that forks launches: else each rank of each pool imports it."""
    server._import(families.preloads(("training",)))
    sizes = WORKLOADS["training.step"].build.__globals__
    with pytest.MonkeyPatch.context() as patch:
        for name, small in ({} if SOAK else SMALL).items():
            patch.setitem(sizes[name], "cpu", small)
        patch.setattr(measure, "MIN_SAMPLES", 7 if SOAK else 1)
        yield


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with closing(Ranks(60.0)) as pool:
        yield pool


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_passes_its_proofs_or_says_why_it_is_skipped(ranks: Ranks, case: Case) -> None:
    axes = case.values
    try:
        proofs = ranks.measure(WORKLOADS[case.workload], case, BRIEF).proofs
    except Unavailable as reason:
        assert str(reason) == WORKLOADS[case.workload].refusal(case, 1)
        return
    wanted = FOUR if axes["num_ranks"] != 1 else {"memory", "parity"}
    if axes.get("wrap") in SHARED or case.workload.partition(".")[2] in {*SHARED, "reshard"}:
        wanted = wanted - {"replicas"}
    if case.workload == "training.input":
        wanted = wanted | {"samples"}
    if axes.get("part", "step") != "step":
        wanted = {"sent"}
    assert proofs == dict.fromkeys(wanted, "passed")


@pytest.mark.parametrize(
    ("case", "what"),
    [
        ("training.step[cpu,3,fsdp2,per_rank,float32]", "rows of a layer"),
        ("training.step[cpu,3,zero1,per_rank,float32]", "layers"),
        ("training.tensor_parallel[cpu,3,by_sequence]", "heads"),
    ],
)
def test_what_ranks_cannot_share_out_evenly_is_skipped(ranks: Ranks, case: str, what: str) -> None:
    """As of a world of 3, which a launcher has started."""
    name, _, values = case.rstrip("]").partition("[")
    device, _, *others = values.split(",")
    work = WORKLOADS[name]
    axes: dict[str, AxisValue] = dict(zip(work.axes, (device, 3, *others), strict=True))
    with pytest.raises(Unavailable, match=f"{what} are not shared out evenly over 3 ranks"):
        ranks.measure(work, Case(name, axes), BRIEF)


@pytest.fixture(scope="module")
def faulty() -> Iterator[Ranks]:
    """Two ranks that know that workload; a proof that fails does not end them."""
    from tests.families.training_faults import FAULTY

    with pytest.MonkeyPatch.context() as patch, closing(Ranks(60.0)) as pool:
        patch.setitem(workload.REGISTRY, FAULTY.name, FAULTY)
        yield pool


def measured(pool: Ranks, fault: str, wrap: str) -> Measurement:
    faulty = workload.REGISTRY["faulty.step"]
    axes: dict[str, AxisValue] = {"device": "cpu", "wrap": wrap, "fault": fault}
    return pool.measure(faulty, Case(faulty.name, axes), BRIEF)


@pytest.mark.parametrize(
    ("fault", "wrap", "caught_by"),
    [
        ("none", "ddp", set()),
        ("lose_a_bucket", "ddp", {"replicas", "sent", "parity"}),
        ("wrong_mean", "ddp", {"parity"}),
        ("count_twice", "ddp", {"parity"}),
        ("leave_stale", "zero1", {"replicas", "sent", "parity"}),
        ("update_once", "ddp", {"replicas", "parity"}),
        ("compute_otherwise", "fsdp2", {"parity"}),
        ("compute_otherwise", "tensor_parallel", {"parity"}),
        ("hold_more", "ddp", {"memory"}),
        ("lose_a_gradient", "ddp", {"memory", "parity"}),
        ("unshard_momentum", "zero1", {"sent", "memory"}),
        ("all leave early", "ddp", {"sent"}),
    ],
)
def test_what_goes_wrong_fails_the_proofs_that_see_it(
    faulty: Ranks, fault: str, wrap: str, caught_by: set[str]
) -> None:
    proofs = measured(faulty, fault, wrap).proofs
    assert {name for name, text in proofs.items() if text.startswith("failed")} == caught_by
    assert proofs.keys() == (FOUR - {"replicas"} if wrap in SHARED else FOUR)


@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_what_is_sent_alone_are_the_collectives_of_a_step(faulty: Ranks, wrap: str) -> None:
    assert measured(faulty, "sent alone", wrap).findings["is_so"]


def test_a_rank_that_leaves_no_sync_a_step_early_is_named(faulty: Ranks) -> None:
    with closing(Ranks(5.0)) as short, pytest.raises(RankFailure, match=r"^rank 1 did not answer"):
        measured(short, "leaves early", "ddp")


def test_most_numbers_change_and_are_exact_in_float32_over_powers_of_two_alone() -> None:
    import torch

    from hostbench.families.trainer import Shape, load_whole, one_process
    from tests.families.training_faults import SHAPE

    where = torch.device("cpu")
    for shape in (SHAPE, Shape(rows=32, layers=0, width=256)):
        before = shape.build(where)
        load_whole(before, where)
        for num_ranks in (1, 2, 4, 8):
            after = one_process(shape, num_ranks, where)
            same = sum(int((a == b).sum()) for a, b in zip(before.parameters(), after, strict=True))
            assert 4 * same < shape.nbytes / 2
        with pytest.raises(Unavailable, match="a mean over 3 ranks is not exact"):
            one_process(shape, 3, where)
