"""Journals become archives: orphans are adopted, what lives or cannot be read is left."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostbench.core.records import Archived, Run
from hostbench.runner.journal import JournalWriter
from hostbench.store import adopt, archive
from tests.fakes.builders import COMMIT, copy_case, record, run, write_journal
from tests.stored import runs_of

CASES = [copy_case(blocking=blocking) for blocking in (True, False)]
RUN = run([record(case) for case in CASES])


def nobody() -> str:
    pytest.fail("nobody asked for a machine's name")


def orphans(results: Path, machine: Any = nobody) -> tuple[list[Archived], list[str]]:
    warnings: list[str] = []
    return adopt.adopt_orphans(results, machine, warnings.append), warnings


def test_an_orphan_is_adopted(tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, finish=False)
    with path.open("a") as file:
        file.write('{"kind": "ca')
    (adopted,), warnings = orphans(tmp_path)
    assert warnings == []
    assert (adopted.finish, adopted.damaged) == (None, [5])
    assert not path.exists()
    assert archive.read(archive.path_of(tmp_path, adopted)).records == RUN.records
    assert [one.run_id for one in runs_of(tmp_path)] == [RUN.header.run_id]
    empty = write_journal(tmp_path, run([]), finish=False)
    assert orphans(tmp_path) == ([], []) and not empty.exists()


def test_a_live_one_is_left(tmp_path: Path) -> None:
    path = tmp_path / ".journals" / "live.journal.jsonl"
    with JournalWriter(path, RUN.header) as writer:
        writer.case(RUN.records[0])
        assert orphans(tmp_path) == ([], [])
        assert path.exists()
        writer.case(RUN.records[1])
    (adopted,), _ = orphans(tmp_path)
    assert adopted.records == RUN.records


def test_an_unreadable_one_is_named_and_left_and_the_next_one_adopted(tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN)
    bad = [path.with_name(f"{name}.journal.jsonl") for name in ("0", "1", "2")]
    bad[0].write_text("no json\n")
    bad[1].mkdir()
    bad[2].symlink_to(tmp_path / "nowhere")
    adopted, warnings = orphans(tmp_path)
    assert [one.header.run_id for one in adopted] == [RUN.header.run_id]
    assert len(warnings) == 3
    assert all(any(str(b) in warning for warning in warnings) for b in bad)
    assert bad[0].exists() and bad[1].exists() and bad[2].is_symlink()


def test_a_kill_between_archive_and_journal_is_made_good(tmp_path: Path) -> None:
    archive.write(tmp_path, RUN)
    path = write_journal(tmp_path, RUN)
    before = archive.path_of(tmp_path, RUN).read_bytes()
    orphans(tmp_path)
    assert not path.exists()
    assert archive.path_of(tmp_path, RUN).read_bytes() == before


# Runs that asv made by itself


def asv_file(results: Path, machine: str, started_ms: int, commit: str = COMMIT) -> None:
    folder = results / machine
    folder.mkdir(parents=True, exist_ok=True)
    row = [[1.0], [], "1", started_ms]
    data = {
        "commit_hash": commit,
        "result_columns": ["result", "params", "version", "started_at"],
        "results": {"transfer.HostToDevice.track_seconds": row, "other.Thing.time_it": row},
    }
    path = folder / f"{commit[:8]}-hostbench-py3.11.json"
    path.write_text(json.dumps(data))


STARTED_MS = 1_795_262_400_000
BY_ASV = run([record(case) for case in CASES], machine=None, by="asv", finish=None)


def test_asvs_machine_and_rows_are_taken_over(tmp_path: Path) -> None:
    asv_file(tmp_path, "table", STARTED_MS + 5)
    write_journal(tmp_path, BY_ASV)
    (adopted,), _ = orphans(tmp_path)
    assert adopted.header.machine == "table"
    assert adopted.asv_rows == [["transfer.HostToDevice.track_seconds", STARTED_MS + 5]]
    assert (tmp_path / "table" / "runs").is_dir()


OTHER_COMMIT = COMMIT[:8] + "f" * 32


@pytest.mark.parametrize(
    ("part", "started_ms", "commit", "machine"),
    [
        pytest.param(BY_ASV, STARTED_MS - 5, COMMIT, "here", id="older"),
        pytest.param(BY_ASV, STARTED_MS + 5, OTHER_COMMIT, "here", id="another commit"),
        pytest.param(RUN, STARTED_MS + 5, COMMIT, "shelf", id="another machine"),
    ],
)
def test_rows_of_others_are_left(
    tmp_path: Path, part: Run, started_ms: int, commit: str, machine: str
) -> None:
    """So is a file that asv did not write whole."""
    asv_file(tmp_path, "table", started_ms, commit)
    asv_file(tmp_path, "damaged", STARTED_MS + 5)
    (path,) = (tmp_path / "damaged").glob("*.json")
    path.write_text(json.dumps({"commit_hash": COMMIT, "results": None}))
    write_journal(tmp_path, part)
    (adopted,), warnings = orphans(tmp_path, lambda: "here")
    assert (adopted.header.machine, adopted.asv_rows, warnings) == (machine, [], [])
