"""What asv promises its users holds for our suite: real asv, on two commits of one checkout.

Numbers are constants written into each commit's code, so that expectations are exact.
"""

import json
import math
import re
import sys

import pytest

from tests import scratch
from tests.asv_scratch import D2H, FAST, H2D, WORKER, cells, cpu, small, stored, version
from tests.scratch import TRANSFER, Scratch

pytestmark = pytest.mark.asv
BUMPED = "transfer.Bumped.track_seconds"
BUMPED_CODE = '''

@workload(axes={"device": DEVICES}, version="1")
def bumped(device):
    """One copy whose version goes up at head."""
    source = device.host_buffer(64 * KIB, pinned=False)
    target = device.buffer(64 * KIB)
    return lambda: device.copy(target, source, blocking=True)
'''


@pytest.fixture(scope="module")
def two_commits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scratch, str, str]:
    """base (1 s) and head (2 s; a workload, a middle size, a failure, a skip more; a version).
    hostbench and the file of the workloads have changed, and what is measured is their product."""
    checkout = scratch.make(tmp_path_factory.mktemp("two"))
    small(checkout, 1.0)
    checkout.edit(WORKER, "=1.0 if", "=1.0 * work.build.__globals__['TIMES'] if")
    checkout.edit(TRANSFER, "SIZES = (64 * KIB, MIB)", "SIZES = (64 * KIB, MIB)\nTIMES = 1.0")
    text = (checkout.root / TRANSFER).read_text()
    whole, (first, second) = text, text.split("@workload")[:2]
    (checkout.root / TRANSFER).write_text(f"{first}@workload{second}".rstrip() + BUMPED_CODE)
    checkout.edit(TRANSFER, "SIZES = (64 * KIB, MIB)", "SIZES = (64 * KIB, 4 * MIB)")
    base = checkout.commit("base: no device_to_host, two sizes")
    bumped = BUMPED_CODE.replace('version="1"', 'version="2"')
    (checkout.root / TRANSFER).write_text(whole.rstrip() + bumped)
    checkout.edit(TRANSFER, "SIZES = (64 * KIB, MIB)", "SIZES = (64 * KIB, MIB, 4 * MIB)")
    checkout.edit(WORKER, "=1.0 *", "=0.5 *")
    checkout.edit(TRANSFER, "TIMES = 1.0", "TIMES = 4.0")
    checkout.edit(
        TRANSFER,
        "    target = device.host_buffer(nbytes",
        "    if nbytes == MIB:\n"
        '        raise device.refusal("room") if blocking else ValueError("put in on purpose")\n'
        "    target = device.host_buffer(nbytes",
    )
    head = checkout.commit("head: twice as slow, a workload and a middle size more")
    checkout.keep_bytecode()
    done = checkout.asv("run", "ALL", "--machine", "scratch", "--record-samples", **FAST)
    assert done.returncode == 2, done.stdout  # asv's own code for: a benchmark failed
    return checkout, base, head


def test_a_new_middle_value_and_a_new_workload_leave_old_cases_right(
    two_commits: tuple[Scratch, str, str],
) -> None:
    """Each commit runs its own code. An editable install of hostbench beside asv, or HEAD's
    benchmarks/, which asv has imported, would give base 0.5 or 4 s, head the same."""
    checkout, base, head = two_commits
    old, new = cells(checkout, base, H2D), cells(checkout, head, H2D)
    assert (old[cpu(65536)]["result"], old[cpu(4194304)]["result"]) == (1.0, 1.0)
    assert math.isnan(old[cpu(1048576)]["result"])
    assert new[cpu(1048576)]["result"] == 2.0
    assert all(math.isnan(cell["result"]) for cell in cells(checkout, base, D2H).values())
    assert cells(checkout, head, D2H)[cpu(65536)]["result"] == 2.0


def test_a_version_bump_separates_the_numbers(two_commits: tuple[Scratch, str, str]) -> None:
    checkout, base, head = two_commits
    assert math.isnan(cells(checkout, base, BUMPED)[(repr("cpu"),)]["result"])
    assert cells(checkout, head, BUMPED)[(repr("cpu"),)]["result"] == 2.0


def test_skipped_and_failed_differ(two_commits: tuple[Scratch, str, str]) -> None:
    checkout, _, head = two_commits
    found = cells(checkout, head, D2H)
    assert found[cpu(1048576, blocking=False)]["result"] is None
    assert math.isnan(found[cpu(1048576, blocking=True)]["result"])


def test_compare_marks_the_slower_rows_and_no_others(two_commits: tuple[Scratch, str, str]) -> None:
    checkout, base, head = two_commits
    done = checkout.asv("compare", base, head, "--machine", "scratch")
    assert done.returncode == 0
    rows = [line for line in done.stdout.splitlines() if line.startswith("|") and "track" in line]
    worse = [row for row in rows if row.startswith("| +")]
    both = [row for row in rows if row.count(" n/a") == 0]
    assert len(both) == 4 and worse == both  # 2 sizes x blocking or not
    assert "2.00" in worse[0]


def test_environment_and_files_name_no_path(two_commits: tuple[Scratch, str, str]) -> None:
    checkout, base, _ = two_commits
    data = stored(checkout, base)
    assert data["env_name"] == f"hostbench-py{version()}"
    assert data["requirements"] == {}
    described = json.loads((checkout.results / "benchmarks.json").read_text())
    assert described[H2D]["params"][0] == ["'cuda'", "'cpu'"]  # static, also without a GPU
    for path in checkout.results.rglob("*.json"):
        assert str(checkout.root) not in path.read_text(), path
        assert sys.prefix not in path.read_text(), path


def test_check_show_and_publish_work(two_commits: tuple[Scratch, str, str]) -> None:
    """What is published are our benchmarks with their numbers, and the steps between them."""
    checkout, base, head = two_commits
    assert checkout.asv("check").returncode == 0
    shown = checkout.asv("show", base)
    assert shown.returncode == 0 and "HostToDevice" in shown.stdout
    published = checkout.asv("publish")
    assert published.returncode == 0, published.stdout
    html = checkout.root / ".asv/html"
    index = json.loads((html / "index.json").read_text())
    assert set(index["benchmarks"]) == {H2D, D2H, BUMPED}
    assert index["revision_to_hash"] == {"0": base, "1": head}
    summary = json.loads((html / f"graphs/summary/{H2D}.json").read_text())
    assert [(revision, round(seconds, 9)) for revision, seconds in summary] == [(0, 1.0), (1, 2.0)]
    found = json.loads((html / "regressions.json").read_text())["regressions"]
    expected = {
        f"{H2D}({', '.join(cpu(nbytes, blocking=blocking))})"
        for nbytes in (65536, 4194304)
        for blocking in (True, False)
    }
    assert {(name, new, old) for name, _, _, _, new, old, _ in found} == {
        (name, 2.0, 1.0) for name in expected
    }


def test_a_selection_keeps_what_it_does_not_ask_for(two_commits: tuple[Scratch, str, str]) -> None:
    """The last test of the file: it measures one case of head once more."""
    checkout, _, head = two_commits
    options = ("-b", re.escape(f"{H2D}('cpu', 65536, 'pageable', True)"))

    def started_ms() -> int:
        data = stored(checkout, head)
        row = dict(zip(data["result_columns"], data["results"][H2D], strict=False))
        return int(row["started_at"])

    before = started_ms()
    run = ("run", f"{head}^!", "--machine", "scratch", "--record-samples")
    again = checkout.asv(*run, *options, **FAST)
    assert again.returncode == 0, again.stdout
    assert started_ms() > before
    found = cells(checkout, head, H2D)
    assert found[cpu(65536)]["result"] == 2.0
    assert found[cpu(1048576)]["result"] == 2.0, "a number that was not asked for is gone"
