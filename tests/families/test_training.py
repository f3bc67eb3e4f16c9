"""The family training over real ranks of gloo: its proofs pass, and each fault that is put in fails
those that see it, or is blamed on a rank."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hostbench import families
from hostbench.core.case import AxisValue, Case
from hostbench.core.errors import RankFailure, Unavailable
from hostbench.core.records import Measurement
from hostbench.device.base import Device
from hostbench.families import load
from hostbench.families.training.trainer import SGD, Shape, Trainer, load_whole, one_process, unsent
from hostbench.measure import measure, workload
from hostbench.measure.measure import BRIEF, Prepared
from hostbench.measure.workload import Workload
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
SHAPE = Shape(rows=32, layers=8, width=256)  # two buckets of DDP, of 1MiB each
SMALL = {"LAYERS": (32, 4, 256), "BLOCK": (32, 0, 256)}
"""Rows, layers and width in place of those that are measured, but in `make soak`."""
OWN_ROWS = "unavailable: each rank computes a part of the rows, which parity sees"
FOUR = {"replicas", "sent", "memory", "parity"}


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
    if case.workload == "training.input":
        wanted = wanted | {"samples"}
    if axes.get("part", "step") != "step":
        wanted = {"sent"}
    own = {"replicas"} if axes.get("layout") == "by_sequence" else set()
    assert proofs == dict.fromkeys(wanted, "passed") | dict.fromkeys(own, OWN_ROWS)


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
        ranks.measure(work, Case.of(name, axes), BRIEF)


def hook(change: Callable[[Any], Any], trainer: Trainer) -> None:
    """DDP's buckets get what `change` makes of one; None: they are summed and divided."""

    def summed(state, bucket):
        buffer = change(bucket)
        if buffer is None:
            buffer = bucket.buffer().div_(trainer.num)
            dist.all_reduce(buffer)
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(buffer)
        return future

    trainer.module.register_comm_hook(None, summed)


def lose_a_bucket(trainer: Trainer) -> None:
    """The first of two."""
    hook(lambda bucket: None if bucket.is_last() else bucket.buffer(), trainer)


def wrong_mean(trainer: Trainer) -> None:
    def sums(bucket: Any) -> Any:
        dist.all_reduce(bucket.buffer())
        return bucket.buffer()

    hook(sums, trainer)


def count_twice(trainer: Trainer) -> None:
    """Gradients of the step before are not dropped."""
    trainer.module.zero_grad = lambda: None


def leave_stale(trainer: Trainer) -> None:
    """Who has updated a part does not send it to the others."""
    trainer.optimizer._sync_params = lambda: None


def update_once(trainer: Trainer) -> None:
    """Rank 1 goes on with old parameters after its first update."""
    if trainer.rank == 1:
        trainer.optimizer.step = lambda *_: None


def compute_otherwise(trainer: Trainer) -> None:
    """Rank 1 has outputs of its own, as where what others send does not reach it."""
    if trainer.rank == 1:
        trainer.module.register_forward_hook(lambda module, inputs, outputs: 2 * outputs)


def hold_more(trainer: Trainer) -> None:
    """A gradient with as much again behind it."""
    update = trainer.update

    def more() -> None:
        update()
        parameter = next(trainer.model.parameters())
        assert parameter.grad is not None
        parameter.grad = torch.cat([parameter.grad, parameter.grad])[: len(parameter)]

    trainer.update = more


def unshard_momentum(trainer: Trainer) -> None:
    """Each rank updates all, and holds what ZeRO-1 shares out."""
    trainer.optimizer = SGD([*trainer.model.parameters()])


def lose_a_gradient(trainer: Trainer) -> None:
    """The first parameter's is dropped before the update."""
    first, update = next(trainer.model.parameters()), trainer.update

    def without() -> None:
        first.grad = None
        update()

    trainer.update = without


def note_what_is_sent(wrap: str) -> Prepared:
    """DDP's first bucket holds 1MiB at most, the next up to 25MiB; FSDP2's units are layers."""
    layer = 4 * 512 * 512
    wanted = {
        "ddp": [("all_reduce", layer), ("all_reduce", 3 * layer)],
        "fsdp2": [("all_gather_into_tensor", layer)] * 8 + [("reduce_scatter_tensor", layer)] * 4,
    }[wrap]
    _, noted = unsent(wrap, Shape(rows=2, layers=4, width=512))
    return Prepared(step=lambda: None, findings=lambda: {"is_so": sorted(noted) == wanted})


def build(device: Device, wrap: str, fault: str) -> Prepared:
    """Of a step in which something goes wrong, on every rank."""
    if fault == "sent alone":
        return note_what_is_sent(wrap)
    if fault == "leaves early":
        trainer = Trainer(wrap, replace(SHAPE, micro_batches=4), 1)
        trainer.synced += trainer.rank == 1
        return trainer.prepared()
    if fault == "all leave early":
        trainer = Trainer(wrap, replace(SHAPE, micro_batches=4), 1)
        prepared = trainer.prepared()
        trainer.synced += 1
        return prepared
    trainer = Trainer(wrap, SHAPE)
    if fault != "none":
        FAULTS[fault](trainer)
    return trainer.prepared()


FAULTS: dict[str, Callable[[Trainer], None]] = {
    fault.__name__: fault
    for fault in (lose_a_bucket, wrong_mean, count_twice, leave_stale, update_once, hold_more,
                  compute_otherwise, lose_a_gradient, unshard_momentum)
}  # fmt: skip
FAULTY = Workload(
    name="faulty.step",
    axes={"device": ("cpu",), "wrap": ("ddp",), "fault": (*FAULTS,)},
    version="1",
    build=build,
    per_case={"ranks": 2},
)


@pytest.fixture(scope="module")
def faulty() -> Iterator[Ranks]:
    """Two ranks that know that workload; a proof that fails does not end them."""
    with pytest.MonkeyPatch.context() as patch, closing(Ranks(60.0)) as pool:
        patch.setitem(workload.REGISTRY, FAULTY.name, FAULTY)
        yield pool


def measured(pool: Ranks, fault: str, wrap: str) -> Measurement:
    axes = {"device": "cpu", "wrap": wrap, "fault": fault}
    return pool.measure(FAULTY, Case.of(FAULTY.name, axes), BRIEF)


@pytest.mark.parametrize(
    ("fault", "wrap", "caught_by"),
    [
        ("none", "ddp", set()),
        ("lose_a_bucket", "ddp", {"replicas", "sent", "parity"}),
        ("wrong_mean", "ddp", {"parity"}),
        ("count_twice", "ddp", {"parity"}),
        ("leave_stale", "zero1", {"replicas", "sent", "parity"}),
        ("update_once", "ddp", {"replicas", "parity"}),
        ("compute_otherwise", "fsdp2", {"replicas", "parity"}),
        ("compute_otherwise", "tensor_parallel", {"replicas", "parity"}),
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
    assert proofs.keys() == FOUR


@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_what_is_sent_alone_are_the_collectives_of_a_step(faulty: Ranks, wrap: str) -> None:
    assert measured(faulty, "sent alone", wrap).findings["is_so"]


def test_a_rank_that_leaves_no_sync_a_step_early_is_named(faulty: Ranks) -> None:
    with closing(Ranks(5.0)) as short, pytest.raises(RankFailure, match=r"^rank 1 did not answer"):
        measured(short, "leaves early", "ddp")


def test_most_numbers_change_and_are_exact_in_float32_over_powers_of_two_alone() -> None:
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
