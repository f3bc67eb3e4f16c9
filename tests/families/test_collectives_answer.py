"""What the report says about collectives, from rows made for the test."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from hostbench.core.units import KIB, MIB
from hostbench.report.collectives import backend_of, collectives

ROOT = Path(__file__).parent.parent.parent


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
        "0.839 GB/s at 4 ranks (50 % of the 2-rank bandwidth, oversubscribed) "
        "[cpu device, no GPU]",
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


LOST: dict[str, Any] = {"status": "failed", "reason": "rank 1 was lost: killed by SIGKILL"}


def test_a_larger_size_that_failed_is_named_beside_the_bandwidth() -> None:
    """Also where one rank alone has a number at that size."""
    for alone in ([], [row(1, 64 * MIB, 1e-5)]):
        found = said(row(2, MIB, 0.001), *alone, row(2, 64 * MIB, None, **LOST))
        assert found == {
            "How does all-reduce scale?": "1 MiB by gloo, bus bandwidth: 1.05 GB/s at 2 ranks; "
            "64 MiB at 2 ranks: failed, rank 1 was lost: killed by SIGKILL [cpu device, no GPU]"
        }


def test_a_larger_size_that_was_not_measured_over_ranks_is_named() -> None:
    found = said(row(2, MIB, 0.001), row(1, 64 * MIB, 1e-5), row(1, 16 * MIB, None, **LOST))
    (text,) = found.values()
    assert "1.05 GB/s at 2 ranks; 16 MiB at 1 rank: failed, rank 1 was lost" in text
    assert "; 16 MiB: not measured at 2 or more ranks" in text
    assert "; 64 MiB: not measured at 2 or more ranks [cpu" in text


def test_a_smaller_size_that_failed_is_named_beside_the_time() -> None:
    (text,) = said(row(2, 4 * KIB, None, **LOST), row(2, 64 * KIB, 4e-4)).values()
    assert text == (
        "64 KiB by gloo: 400 us over 2 ranks; 4 KiB at 2 ranks: failed, rank 1 was lost: killed "
        "by SIGKILL [cpu device, no GPU]"
    )


def test_a_share_names_its_base_and_one_rank_is_singular() -> None:
    base = row(2, MIB, None, **LOST), row(1, MIB, None, **LOST)
    (text,) = said(*base, row(4, MIB, 0.001), row(8, MIB, 0.002)).values()
    assert "at 8 ranks (58 % of the 4-rank bandwidth, oversubscribed)" in text
    assert "; 1 rank: failed, rank 1 was lost: killed by SIGKILL; 2 ranks: failed" in text


def test_large_sizes_without_any_number_do_not_borrow_a_small_one() -> None:
    found = said(row(2, 4 * KIB, 4e-4), row(2, MIB, None, **LOST))
    assert found["How does all-reduce scale?"] == "failed: rank 1 was lost: killed by SIGKILL"


def test_the_backend_of_each_device_is_told_without_torch() -> None:
    assert [backend_of(name) for name in ("cuda", "cpu")] == ["nccl", "gloo"]
    code = "import sys, hostbench.report.collectives; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
