"""The family training over real ranks of gloo: its proofs pass, and each fault that is put in fails
those that see it, or is blamed on a rank."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hostbench.core.case import Case
from hostbench.core.errors import RankFailure, Unavailable
from hostbench.core.records import Measurement
from hostbench.device.base import Device
from hostbench.families import load
from hostbench.families.training.model import Shape
from hostbench.families.training.parts import bucket_lengths
from hostbench.families.training.trainer import Trainer, one_process
from hostbench.measure.measure import Prepared, Settings
from hostbench.measure.workload import Workload
from hostbench.ranks.lockstep import Ranks

WORKLOADS = load(("training",))
SHORT = Settings(budget_s=0.0, warmup_s=0.0)
CASES = sorted(
    (
        case
        for work in WORKLOADS.values()
        for case in work.cases()
        if case.values["device"] == "cpu"
    ),
    key=lambda case: int(case.values["num_ranks"]),
)
SHAPE = Shape(rows=64, layers=4, width=256)
FOUR = {"replicas", "sent", "memory", "parity"}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with closing(Ranks(60.0)) as pool:
        yield pool


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_passes_its_proofs_or_says_why_it_is_skipped(ranks: Ranks, case: Case) -> None:
    axes = case.values
    try:
        proofs = ranks.measure(WORKLOADS[case.workload], case, SHORT).proofs
    except Unavailable as reason:
        assert str(reason) == WORKLOADS[case.workload].refusal(case, 1)
        return
    wanted = FOUR if axes["num_ranks"] != 1 else {"memory", "parity"}
    if case.workload == "training.input":
        wanted = wanted | {"samples"}
    if axes.get("part", "step") != "step":
        wanted = {"sent"}
    assert proofs == dict.fromkeys(wanted, "passed")


def doctored(ranks: Ranks, build: Callable[..., Prepared], num_ranks: int = 2) -> Measurement:
    """Of a workload that is built so, on every rank."""
    work = Workload(
        name="training.step",
        axes={"device": ("cpu",)},
        version="1",
        build=build,
        ranks=lambda **_: num_ranks,
    )
    return measured(ranks, work)


def measured(ranks: Ranks, work: Workload) -> Measurement:
    from hostbench.measure import workload

    before = workload._REGISTRY["training.step"]
    workload._REGISTRY["training.step"] = work
    try:
        ranks.close()  # ranks are forked with this registry
        return ranks.measure(work, Case.of(work.name, {"device": "cpu"}), SHORT)
    finally:
        workload._REGISTRY["training.step"] = before
        ranks.close()


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
    hook(lambda bucket: bucket.buffer() if bucket.index() == 0 else None, trainer)


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


def hold_more(trainer: Trainer) -> None:
    """A gradient with as much again behind it."""
    update = trainer.update

    def more() -> None:
        update()
        parameter = next(trainer.model.parameters())
        assert parameter.grad is not None
        parameter.grad = torch.cat([parameter.grad, parameter.grad])[: len(parameter)]

    trainer.update = more


@pytest.mark.parametrize(
    ("fault", "wrap", "caught_by"),
    [
        (None, "ddp", set()),
        (lose_a_bucket, "ddp", {"replicas", "sent", "parity"}),
        (wrong_mean, "ddp", {"parity"}),
        (count_twice, "ddp", {"parity"}),
        (count_twice, "fsdp2", {"parity"}),
        (count_twice, "tensor_parallel", {"parity"}),
        (leave_stale, "zero1", {"replicas", "sent", "parity"}),
        (update_once, "ddp", {"replicas", "parity"}),
        (update_once, "fsdp2", {"parity"}),
        (hold_more, "ddp", {"memory"}),
    ],
)
def test_what_goes_wrong_fails_the_proofs_that_see_it(
    ranks: Ranks, fault: Callable[[Trainer], None] | None, wrap: str, caught_by: set[str]
) -> None:
    def build(device: Device) -> Prepared:
        trainer = Trainer(wrap, SHAPE)
        if fault is not None:
            fault(trainer)
        return trainer.prepared()

    proofs = doctored(ranks, build).proofs
    assert {name for name, text in proofs.items() if text.startswith("failed")} == caught_by
    assert proofs.keys() == FOUR


def test_a_rank_that_leaves_no_sync_a_step_early_fails_or_is_named(ranks: Ranks) -> None:
    def build(device: Device) -> Prepared:
        trainer = Trainer("ddp", replace(SHAPE, micro_batches=4), 1)
        trainer.synced += trainer.rank == 1
        return trainer.prepared()

    try:
        proofs = doctored(ranks, build).proofs
    except RankFailure as failure:
        assert "rank" in str(failure)
    else:
        assert "failed" in str(proofs)


def test_a_block_and_layers_are_exact_in_float32_over_powers_of_two_alone() -> None:
    where = torch.device("cpu")
    for shape in (SHAPE, Shape(rows=32, layers=0, width=256)):
        for num_ranks in (1, 2, 4, 8):
            assert len(one_process(shape, num_ranks, where)) == 4
        with pytest.raises(Unavailable, match="a mean over 3 ranks is not exact"):
            one_process(shape, 3, where)


def test_what_is_sent_alone_are_the_buckets_of_ddp(ranks: Ranks) -> None:
    """The first holds 1MiB at most, the next up to 25MiB."""

    def build(device: Device) -> Prepared:
        shape = Shape(rows=2, layers=4, width=512)
        lengths = bucket_lengths(shape)
        return Prepared(step=lambda: None, tells=lambda: {"lengths": str(lengths)})

    assert doctored(ranks, build).findings["lengths"] == f"[{512 * 512}, {3 * 512 * 512}]"
