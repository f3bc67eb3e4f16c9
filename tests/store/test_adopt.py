"""Journals become archives: orphans are adopted, what lives or cannot be read is left."""

from pathlib import Path

from hostbench.core.records import Archived
from hostbench.runner.journal import JournalWriter
from hostbench.store import adopt, archive
from tests.fakes.builders import copy_case, record, run, write_journal
from tests.stored import runs_of

CASES = [copy_case(blocking=blocking) for blocking in (True, False)]
RUN = run([record(case) for case in CASES])


def orphans(results: Path) -> tuple[list[Archived], list[str]]:
    warnings: list[str] = []
    return adopt.adopt_orphans(results, warnings.append), warnings


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
