"""The workloads of both families over ranks, measured once by a pool of gloo: all pass their proof,
and send what their algorithm is documented to send."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from hostbench.core.case import Case
from hostbench.core.records import Measurement
from hostbench.core.units import KIB
from hostbench.families import load
from hostbench.measure import measure
from hostbench.measure.measure import BRIEF
from hostbench.ranks.lockstep import Ranks

WORKLOADS = load(("collectives", "point_to_point"))


def small_cases() -> Iterator[Case]:
    """Over 2 and 4 ranks, at one size of each."""
    for work in WORKLOADS.values():
        sizes = {case.values.get("nbytes", 0) for case in work.cases()}
        smallest = min(sizes & {64 * KIB, 1024 * KIB} or {4 * KIB})
        for case in work.cases():
            axes = case.values
            if axes["device"] != "cpu" or axes["num_ranks"] not in (2, 4) or "mpi" in axes.values():
                continue
            if axes.get("nbytes", 0) in (0, smallest):
                yield case


CASES = sorted(small_cases(), key=lambda case: int(case.values["num_ranks"]))


@pytest.fixture(scope="module")
def measured() -> Iterator[dict[Case, Measurement]]:
    with closing(Ranks(60.0)) as ranks, pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "MIN_SAMPLES", 1)
        yield {
            case: ranks.measure(WORKLOADS[case.workload], case, BRIEF)
            for case in CASES
            if not WORKLOADS[case.workload].refusal(case, os.cpu_count() or 1)
        }


def test_one_rank_moves_nothing() -> None:
    work = WORKLOADS["collectives.all_reduce"]
    for case in work.cases():
        assert (work.options(case).moves == 0) is (case.values["num_ranks"] == 1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_passes_its_proof_and_sends_what_is_documented(
    measured: dict[Case, Measurement], case: Case
) -> None:
    result, axes = measured[case], case.values
    assert result.end_to_end_s
    if axes.get("schedule") == "compute_only":
        assert not result.proofs
        return
    assert result.proofs == {"data": "passed"}
    sends_data = axes.get("operation") != "barrier" and "stage" not in axes
    if sys.platform == "linux" and sends_data:
        assert result.findings["sends_as_documented"] is True
