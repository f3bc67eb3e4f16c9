"""nccl through the real ranks, as far as one GPU goes: one rank on it, and no second one."""

import os
from pathlib import Path

import pytest

from hostbench.device.cuda import CudaDevice
from tests import scratch
from tests.stored import runs_of

pytestmark = pytest.mark.gpu


def test_one_rank_has_its_sum_and_two_do_not_share_a_gpu(cuda: CudaDevice, tmp_path: Path) -> None:
    checkout = scratch.make(tmp_path)
    checkout.only_families("collectives")
    checkout.commit("collectives alone")
    cases = [
        arg
        for num_ranks in (1, 2)
        for arg in ("--case", f"collectives.all_reduce[nbytes=1MiB,num_ranks={num_ranks}]")
    ]
    results = tmp_path / "results"
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    done = checkout.hostbench(
        "run", *cases, "--device", "cuda", "--launches", "1", "--no-asv",
        "--results", str(results), CUDA_VISIBLE_DEVICES=first,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    (run,) = runs_of(results)
    records = {int(record.case.values["num_ranks"]): record for record in run.parts[0].records}
    one, two = records[1], records[2]
    assert one.status == "ok" and one.measurement.proofs == {"data": "passed"}, one
    assert list(one.measurement.ranks) == ["0"] and one.nbytes == 0
    assert one.seconds is not None and one.seconds > 0
    assert (two.status, two.reason) == ("skipped", "needs 2 GPUs, this machine has 1")
