"""What the report says about collectives, from rows made for the test."""

from typing import Any

import pandas as pd

from hostbench.report.collectives import collectives
from hostbench.units import KIB, MIB


def row(num_ranks: int, nbytes: int, seconds: float | None, **more: Any) -> dict[str, Any]:
    return {
        "device": "cpu",
        "num_ranks": num_ranks,
        "nbytes": nbytes,
        "seconds": seconds,
        "status": "ok",
        "reason": None,
        "flags": "oversubscribed" if num_ranks > 2 else "",
        **more,
    }


def said(*rows: dict[str, Any]) -> dict[str, str]:
    return dict(collectives(pd.DataFrame(rows)))


def test_bandwidth_at_the_largest_size_and_time_at_the_smallest() -> None:
    found = said(
        row(4, 16 * MIB, 0.03),
        row(2, 16 * MIB, 0.01),
        row(1, 16 * MIB, 2e-5),
        row(1, 4 * KIB, 1.5e-5),
        row(2, 4 * KIB, 4e-4),
    )
    assert found == {
        "How does all-reduce scale?": "16 MiB by gloo, bus bandwidth: 1.68 GB/s at 2 ranks, "
        "0.839 GB/s at 4 ranks (50 %, oversubscribed) [cpu device, no GPU]",
        "What does a small all-reduce cost?": "4 KiB by gloo: 15 us over 1 rank, "
        "400 us over 2 ranks [cpu device, no GPU]",
    }


def test_what_has_no_number_has_its_reason() -> None:
    lacking = {"status": "skipped", "reason": "needs 4 GPUs, this machine has 2", "device": "cuda"}
    found = said(
        row(2, MIB, 0.001, device="cuda"),
        row(4, MIB, None, **lacking),
    )
    assert found == {
        "How does all-reduce scale?": "1 MiB by nccl, bus bandwidth: 1.05 GB/s at 2 ranks; "
        "4 ranks: skipped, needs 4 GPUs, this machine has 2"
    }
    lacking["reason"] = "needs 2 GPUs, this machine has 1"
    found = said(row(1, MIB, 1e-5, device="cuda"), row(2, MIB, None, **lacking))
    assert found == {
        "How does all-reduce scale?": "cannot be seen here: needs 2 GPUs, this machine has 1"
    }
