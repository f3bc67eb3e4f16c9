"""Real asv where each test has a throwaway checkout of its own: rounds, and our own run."""

import json
import re
import shlex
from pathlib import Path

import pytest

from hostbench.core import journal
from tests import scratch
from tests.asv_scratch import H2D, WORKER, cells, cpu, small
from tests.stored import read_tree

pytestmark = pytest.mark.asv


def test_hostbench_run_measures_once_and_asv_has_it(tmp_path: Path) -> None:
    """Foreground run, archive and asv's own file hold the same points, shown once, and asv's
    commands find them."""

    checkout = scratch.make(tmp_path)
    small(checkout, 1.0)
    commit = checkout.commit("base")
    checkout.keep_bytecode()  # the edit below comes seconds later
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

    few = (*run, "--case", "transfer.host_to_device[nbytes=64KiB]")
    some = checkout.hostbench(*few)
    assert some.returncode == 0, some.stdout
    assert cells(checkout, commit, H2D)[cpu(1 << 20)]["samples"] == [1.0] * 8  # asked for before
    checkout.edit(WORKER, "1.0", "2.0")
    head = checkout.commit("slower")
    assert checkout.hostbench(*run).returncode == 0
    compared = checkout.asv("compare", commit, head)
    assert compared.returncode == 0 and compared.stdout.count("\n| + ") == 8, compared.stdout

    (checkout.results / "benchmarks.json").write_text("{")
    failed = checkout.hostbench(*few)
    assert failed.returncode == 4 and "archived all the same" in failed.stdout, failed.stdout
    assert len(read_tree(checkout.results).runs) == 4


def test_the_recipe_of_the_docs_works_in_a_fresh_clone(tmp_path: Path) -> None:
    """With an empty home, after the quick run that `make bench` is, beside another machine's
    results; one launch of two cases, for the time's sake. `continuous` measures each of its rounds
    anew."""
    origin = scratch.make(tmp_path)
    small(origin, 1.0)
    text = (origin.root / scratch.TRANSFER).read_text().replace("(64 * KIB, MIB)", "(64 * KIB,)")
    text, _, _ = text.rpartition("\n\n@workload")  # one is enough
    quick = text.replace('version="1")', 'version="1", quick=lambda blocking, **_: blocking)')
    (origin.root / scratch.TRANSFER).write_text(quick)
    (origin.root / ".gitignore").write_text("__pycache__/\n.asv/\n")
    theirs = {"machine": "theirs", "version": 1}
    scratch.put(origin.results / "theirs/machine.json", json.dumps(theirs))
    origin.commit("base")
    origin.git("clone", "-q", str(origin.root), str(tmp_path / "clone"))
    home = tmp_path / "new"
    home.mkdir()
    clone = scratch.Scratch(tmp_path / "clone", home, dict(origin.environ))
    clone.git("switch", "-q", "-c", "mine")
    clone.edit(WORKER, "=1.0 if", "=3.0 if")
    clone.commit("slower")
    clone.keep_bytecode()

    bench = clone.hostbench("run", "--quick")
    named = re.search(r"^(\S+) · ", bench.stdout, re.M)
    assert bench.returncode == 0 and named, bench.stdout
    lines = re.findall(r"^asv .*$", (scratch.TREE / "docs/asv.md").read_text(), re.M)[:4]
    assert [line.split()[1] for line in lines] == ["run", "run", "compare", "continuous"]
    for line in lines:
        _, *words = shlex.split(line.replace("NAME", named[1]), comments=True)
        done = clone.asv(*words, HOSTBENCH_LAUNCHES="1")
        assert done.returncode == (words[0] == "continuous"), done.stdout  # 1: something got worse
        if words[0] == "compare":
            assert done.stdout.count("\n| + ") == 2, done.stdout
    held = [journal.read(path).header.scratch for path in journal.find(clone.results)]
    assert held == ["1 launch, under 7"] * (1 + 1 + 2 * 2)
    for commit, seconds in (("main", 1.0), ("HEAD", 3.0)):
        measured = cells(clone, clone.git("rev-parse", commit), H2D, named[1])
        assert measured[cpu(65536)]["samples"] == [seconds] * 2
