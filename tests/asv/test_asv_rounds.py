"""Real asv where each test has a throwaway checkout of its own: rounds, and our own run."""

import json
import shutil
from pathlib import Path

import pytest

from hostbench.runner import journal
from tests import scratch
from tests.asv_scratch import H2D, WORKER, cells, cpu, small
from tests.stored import read_tree

pytestmark = pytest.mark.asv


def test_continuous_measures_each_round_anew(tmp_path: Path) -> None:
    checkout = scratch.make(tmp_path)
    small(checkout, 1.0)
    base = checkout.commit("base")
    checkout.edit(WORKER, "else 1.0,", "else 3.0,")
    head = checkout.commit("head")
    done = checkout.asv("continuous", base, head, "--machine", "scratch", HOSTBENCH_LAUNCHES="4")
    assert done.returncode == 1, done.stdout  # asv's code for: something got worse
    assert "PERFORMANCE DECREASED" in done.stdout
    assert cells(checkout, base, H2D)[cpu(65536)]["samples"] == [1.0] * 8
    assert cells(checkout, head, H2D)[cpu(65536)]["samples"] == [3.0] * 8


def test_hostbench_run_measures_once_and_asv_records_it(tmp_path: Path) -> None:
    """Foreground run, archive and asv's own file hold the same points, shown once."""

    checkout = scratch.make(tmp_path)
    small(checkout, 1.0)
    commit = checkout.commit("base")
    run = ("run", "--launches", "8", "--machine", "scratch")
    done = checkout.hostbench(*run)
    assert done.returncode == 0, done.stdout
    assert cells(checkout, commit, H2D)[cpu(65536)]["samples"] == [1.0] * 8
    tree = read_tree(checkout.results)
    ours = tree.frame[tree.frame["status"] == "ok"]
    assert tree.warnings == [] and len(tree.runs) == 1
    assert len(ours) == 8 and set(ours["source"]) == {"archive"} and set(ours["commit"]) == {commit}
    assert not list(journal.find(checkout.results))
    homes = json.loads((checkout.home / ".asv-machine.json").read_text())
    assert set(homes) == {"scratch", "version"}

    shutil.rmtree(checkout.root / ".asv")
    (checkout.root / ".asv").write_text("in asv's way")
    failed = checkout.hostbench(*run)
    assert failed.returncode == 4 and "archived all the same" in failed.stdout, failed.stdout
    assert len(read_tree(checkout.results).runs) == 2
