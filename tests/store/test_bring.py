"""Importing a results tree: what is new is copied, what is there stays, machines are kept apart."""

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from hostbench.cli import main
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED
from hostbench.store import archive, check, compact, peers, table
from tests.fakes.builders import copy_case, create_case, record, run, skipped, write_journal
from tests.store.test_frame import H2D, STARTED_MS, asv_file
from tests.store.test_table import same, same_rows
from tests.stored import read_tree

DATA = Path(__file__).parent.parent / "data"
RUN = run([record(copy_case(), 0), record(copy_case(), 1)], asv_rows=[[H2D, STARTED_MS]])


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Another checkout of ours: asv's file, an archive that claims its rows, a run in progress."""
    tree = tmp_path / "theirs"
    tree.mkdir()
    asv_file(tree)
    archive.write(tree, RUN)
    write_journal(tree, run([record(copy_case())], run_id="going"), finish=False)
    return tree


def bring(results: Path, *arguments: object) -> int:
    return main(["import", *map(str, arguments), "--results", str(results)])


def test_all_of_it_arrives(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = theirs.with_name("ours")
    assert bring(results, theirs) == 0
    said = capsys.readouterr()
    assert said.out == "shelf: 2 new, 0 already there\n"
    assert "1 run in progress left out" in said.err
    shutil.rmtree(theirs / ".journals")
    same_rows(read_tree(results).frame, read_tree(theirs).frame)
    same(results)
    assert bring(results, theirs) == 0
    assert capsys.readouterr().out == "shelf: 0 new, 2 already there\n"


def test_another_projects_tree_keeps_its_parameters(tmp_path: Path) -> None:
    asv_file(tmp_path / "ours", machine="table")
    assert bring(tmp_path / "ours", DATA / "asv_tree") == 0
    rows = read_tree(tmp_path / "ours").frame
    brought = rows[rows["machine"] == "shelf"]
    direct = read_tree(DATA / "asv_tree").frame
    assert sorted(brought["case"]) == sorted(direct["case"])
    assert brought["n"].notna().any()
    assert rows[rows["machine"] == "table"]["memory"].notna().all()
    same(tmp_path / "ours")
    assert check.check(tmp_path / "ours").findings == []


def test_into_an_empty_folder_all_is_whole(theirs: Path) -> None:
    """asv shows nothing without the benchmarks.json that the machines share."""
    shutil.copytree(DATA / "asv_tree", theirs, dirs_exist_ok=True)
    shutil.rmtree(theirs / ".journals")
    before = check.check(theirs).findings
    assert bring(theirs.with_name("ours"), theirs) == 0
    found = check.check(theirs.with_name("ours")).findings
    assert [one.what for one in found] == [one.what for one in before] == []


def test_archives_alone_need_no_benchmarks(tmp_path: Path) -> None:
    archive.write(tmp_path / "theirs", replace(RUN, asv_rows=[]))
    assert bring(tmp_path / "ours", tmp_path / "theirs") == 0
    assert check.check(tmp_path / "ours").findings == []


def test_folders_with_other_json_are_no_machines(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of `import /tmp`, where somebody's checkouts lie."""
    for name in ("page/package.json", "page/tsconfig.json", "other/x.json"):
        (theirs.parent / "tmp" / name).parent.mkdir(exist_ok=True, parents=True)
        (theirs.parent / "tmp" / name).write_text("{}")
    results = theirs.with_name("ours")
    assert bring(results, theirs.parent / "tmp") == EXIT_NOTHING_MEASURED
    theirs.rename(theirs.parent / "tmp" / "shelf")
    assert "holds no results of any machine" in capsys.readouterr().err
    assert bring(results, theirs.parent / "tmp") == EXIT_NOTHING_MEASURED
    assert not results.exists()


def test_what_is_not_there_may_be_a_tree_or_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bring(tmp_path / "ours", tmp_path / "nothing", "--machine", "m") == 2
    err = capsys.readouterr().err
    assert "nothing" in err and "results tree" in err and "nvbandwidth" in err


def test_what_is_there_is_never_written_over(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = theirs.with_name("ours")
    results.mkdir()
    asv_file(results, STARTED_MS + 60_000)
    (path,) = results.glob("shelf/*-*.json")
    before = path.read_bytes()
    assert bring(results, theirs) == 0
    said = capsys.readouterr()
    assert said.out == "shelf: 1 new, 0 already there, 1 kept as they are here\n"
    assert "differs from the file of that name here, which stays" in said.err
    assert path.read_bytes() == before


def test_other_hardware_is_another_machine(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = theirs.with_name("ours")
    results.mkdir()
    asv_file(results)
    (results / "shelf" / "machine.json").write_text('{"machine": "shelf", "cpu": "Another"}')
    assert bring(results, theirs) == 2
    err = capsys.readouterr().err
    assert "cpu is 'Another'" in err and "--machine NAME" in err and "'A CPU'" in err
    assert not (results / "shelf" / "runs").exists()
    assert bring(results, theirs, "--machine", "box") == 0
    rows = read_tree(results).frame
    assert rows[rows["machine"] == "box"]["source"].to_list() == ["archive"]  # claims its asv rows
    data = json.loads((results / "box" / "1a2b3c4d-hostbench-py3.11.json").read_text())
    assert data["results"] and json.loads((results / "box" / "machine.json").read_text()) == {
        "machine": "box",
        "cpu": "A CPU",
        "version": 1,
    }
    capsys.readouterr()
    assert bring(results, theirs, "--machine", "box") == 0
    assert capsys.readouterr().out == "box: 0 new, 2 already there\n"


def test_what_a_newer_hostbench_wrote_stays_behind(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archive.path_of(theirs, RUN)
    path.write_bytes(archive.packed({"hostbench": {"format": 2}}))
    assert bring(theirs.with_name("ours"), theirs) == 4
    said = capsys.readouterr()
    assert said.out == "shelf: 1 new, 0 already there, 1 left behind\n"
    assert f"{path} was written by a newer hostbench" in said.err and "delete" not in said.err


@pytest.mark.parametrize("where", ["ours", "theirs", "both"])
def test_what_was_compacted_meanwhile_is_already_there(
    theirs: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    results = theirs.with_name("ours")
    samples = [0.5 + number / 100 for number in range(-40, 41)]
    measured = {"end_to_end_s": samples, "call_s": samples, "device_s": []}
    one = run([record(copy_case(), measurement=measured), skipped(create_case())], run_id="long")
    path = archive.write(theirs, one)
    assert bring(results, theirs) == 0
    for tree, kept in ((results, compact.QUANTILES), (theirs, compact.MEDIAN)):
        if where in (tree.name, "both"):
            found = compact.compact(tree, print, older_than_days=0, keep=0, kept=kept)
            assert len(list(found)) == 1
    capsys.readouterr()
    assert bring(results, theirs) == 0
    said = capsys.readouterr()
    assert (said.out, "differs" in said.err) == ("shelf: 0 new, 3 already there\n", False)
    path.unlink()
    archive.write(theirs, replace(one, records=(record(copy_case(), 0, 0.4),)))
    assert bring(results, theirs) == 0
    said = capsys.readouterr()
    assert said.out.endswith("1 kept as they are here\n") and "differs" in said.err


@pytest.mark.parametrize("params", [None, [], "x"])
def test_another_name_for_an_archive_without_params(theirs: Path, params: object) -> None:
    path = archive.path_of(theirs, RUN)
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["params"] = params
    if params is None:
        del data["params"]
    path.write_bytes(archive.packed(data))
    results = theirs.with_name("ours")
    assert bring(results, theirs, "--machine", "box") == 0
    brought = archive.read(results / "box" / "runs" / path.name)
    assert (brought.header.machine, brought.records) == ("box", RUN.records)


def test_damage_stays_behind(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = theirs.with_name("ours")
    (theirs / "shelf" / "00000000-half.json").write_text("{")
    (theirs / "shelf" / "runs" / "half.json.gz").write_bytes(b"half")
    assert bring(results, theirs) == 4
    said = capsys.readouterr()
    assert said.out == "shelf: 2 new, 0 already there, 2 left behind\n"
    assert "00000000-half.json" in said.err and "half.json.gz" in said.err
    assert read_tree(results).warnings == []


def test_names_and_hardware_that_cannot_be_read_are_told(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (theirs / "benchmarks.json").write_text("{")
    (theirs / "shelf" / "machine.json").unlink()
    os.mkfifo(theirs / "shelf" / "machine.json")
    assert bring(theirs.with_name("ours"), theirs) == EXIT_FAILED
    said = capsys.readouterr()
    assert "2 new" in said.out and "2 left behind" in said.out
    assert said.err.count("benchmarks.json cannot be read") == 1
    assert "machine.json cannot be read (it is no regular file" in said.err


def test_another_tools_figures_come_along(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = peers.add(theirs, "shelf", DATA / "nvbandwidth" / "two_gpus.json")
    path.with_name(f"half{peers.SUFFIX}").write_bytes(b"half")
    results = theirs.with_name("ours")
    assert bring(results, theirs) == 4
    assert capsys.readouterr().out == "shelf: 3 new, 0 already there, 1 left behind\n"
    assert (results / "shelf" / "peers" / path.name).read_bytes() == path.read_bytes()


def test_wrong_use(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asv_file(theirs, machine="table")
    assert bring(theirs.with_name("ours"), theirs, "--machine", "box") == 2
    assert "holds 2 (shelf, table)" in capsys.readouterr().err
    assert bring(theirs, theirs) == 2
    assert "is the results folder itself" in capsys.readouterr().err


def test_a_folder_without_asvs_configuration_may_be_named(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (theirs / "benchmarks.json").write_text("{}")
    folder = theirs.with_name("folder")
    shutil.copytree(theirs, folder / "results")
    assert bring(theirs.with_name("ours"), folder) == 0
    assert capsys.readouterr().out == "shelf: 2 new, 0 already there\n"
    for path in folder.glob("results/shelf/**/*-*"):
        path.unlink()
    assert bring(theirs.with_name("ours"), folder) == EXIT_NOTHING_MEASURED
    assert "holds no results of any machine" in capsys.readouterr().err


def test_a_checkout_may_be_named(theirs: Path) -> None:
    checkout = theirs.with_name("checkout")
    shutil.copytree(theirs, checkout / "measured")
    (checkout / "asv.conf.json").write_text('{"results_dir": "measured"}  // asv allows this')
    assert bring(theirs.with_name("ours"), checkout) == 0
    assert (theirs.with_name("ours") / "shelf" / "runs").is_dir()


# Results of many machines in git


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    done = subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def a_night(results: Path, machine: str, number: int) -> None:
    """What `hostbench run` leaves: asv's file, its benchmarks.json written anew, an archive."""
    asv_file(results, STARTED_MS + number, machine=machine)
    part = run(
        [record(copy_case(), 0), record(copy_case(), 1)],
        run_id=f"20261121T12000{number}Z-1a2b3c4d-000{number}",
        machine=machine,
        asv_rows=[[H2D, STARTED_MS + number]],
    )
    archive.write(results, part)
    table.open_table(results)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    a_night(tmp_path / "results", "shelf", 0)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    assert ".index" not in git(tmp_path, "ls-files")
    return tmp_path


def two_branches(root: Path, first: str, second: str) -> None:
    for number, machine in enumerate((first, second), 1):
        git(root, "checkout", "-q", "-b", f"night-{number}", "main")
        a_night(root / "results", machine, number)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", machine)
    git(root, "checkout", "-q", "night-1")


def test_two_machines_merge_without_a_conflict(repository: Path) -> None:
    two_branches(repository, "shelf", "table")
    git(repository, "merge", "-q", "-m", "both", "night-2")
    assert len(read_tree(repository / "results").runs) == 3
    assert check.check(repository / "results").findings == []
    same(repository / "results")


def test_one_machine_twice_conflicts_in_asvs_file_alone(repository: Path) -> None:
    """Two nights of one machine at one commit: asv keeps one file a commit, the archive both."""
    two_branches(repository, "shelf", "shelf")
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    done = subprocess.run(
        ["git", *identity, "-C", str(repository), "merge", "-q", "night-2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    conflicts = git(repository, "diff", "--name-only", "--diff-filter=U").split()
    assert conflicts == ["results/shelf/1a2b3c4d-hostbench-py3.11.json"]
    (finding,) = [
        one for one in check.check(repository / "results").findings if "merge" in one.what
    ]
    assert "git checkout --theirs" in finding.remedy
    git(repository, "checkout", "--theirs", conflicts[0])
    assert len(read_tree(repository / "results").runs) == 3
    assert check.check(repository / "results").findings == []
