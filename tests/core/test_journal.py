"""The journal: what is written is read back, whatever happened to the writer or the disk."""

from pathlib import Path

import pytest

from hostbench.core import journal
from hostbench.core.errors import UsageError
from hostbench.core.journal import JournalWriter
from hostbench.store import archive
from tests.fakes.builders import FACTS, copy_case, create_case, failed, header, record, skipped
from tests.stored import read_tree

RECORDS = (
    record(copy_case(), 0, 0.25, call_s=0.125),
    record(copy_case(blocking=False), 1, 0.5, expected={"asynchronous": True}),
    skipped(copy_case(memory="pinned"), "keine: \u00e4\n\u2028"),
    failed(create_case(), "out of memory", seconds=1.5),
)


def written(folder: Path, *, finish: bool = True) -> Path:
    path = folder / ".journals" / "run.journal.jsonl"
    with JournalWriter(path, header(planned=("a", "b"), scratch="quick")) as writer:
        writer.facts("before", FACTS)
        for one in RECORDS:
            writer.case(one)
        writer.facts("after", {})
        if finish:
            writer.finish("complete", "2026-11-21T12:05:00.000Z")
    return path


def test_a_half_written_last_line_loses_that_line_only(tmp_path: Path) -> None:
    whole = written(tmp_path, finish=False).read_bytes()
    path = tmp_path / "cut.journal.jsonl"
    path.write_bytes(whole[: whole.rindex(b'{"kind": "case"') + 50])
    read = journal.read(path)
    assert (read.records, read.damaged, read.finish) == (RECORDS[:-1], [6], None)


@pytest.mark.parametrize(
    "damage",
    [
        b"[1, 2]\n",
        b"\xff\xfe\x00\n",
        b'{"kind": "case", "case": []}\n',
        b'{"kind": "facts", "when": "before", "facts": {"host": 3}}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_middle_line_is_counted_and_the_rest_read(tmp_path: Path, damage: bytes) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3:4] = [damage, b"\n"]
    path.write_bytes(b"".join(lines))
    read = journal.read(path)
    assert read.records == (RECORDS[0], *RECORDS[2:])
    assert read.damaged == [4], "an empty line is not damaged"
    assert read.finish is not None
    (run,) = archive.adopt_orphans(tmp_path, lambda _: None)
    (warning,) = read_tree(tmp_path).warnings
    assert f"{archive.path_of(tmp_path, run)}: 1 damaged journal line" in warning


def test_every_line_is_on_disk_at_once_and_the_lock_says_alive(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.jsonl"
    with JournalWriter(path, header()) as writer:
        for num, one in enumerate(RECORDS):
            assert len(journal.read(path).records) == num
            writer.case(one)
        assert journal.read(path).finish is None
        writer.finish("complete", "2026-11-21T12:05:00.000Z")
        assert journal.is_alive(path)
    assert not journal.is_alive(path)


@pytest.mark.parametrize("cases", [0, 1])
def test_an_error_before_the_first_case_leaves_nothing(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "one.journal.jsonl"
    with pytest.raises(ZeroDivisionError), JournalWriter(path, header()) as writer:
        writer.facts("before", {})
        for _ in range(cases):
            writer.case(record(copy_case()))
        raise ZeroDivisionError
    assert path.exists() is bool(cases)


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        JournalWriter(path, header())
    assert path.read_bytes() == before
