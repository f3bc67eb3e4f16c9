"""The archive: written once, read back whole, ignored by asv, and damage is named. Journals become
archives: orphans are adopted, what lives or cannot be read is left."""

import gzip
import json
from pathlib import Path

import pytest

from hostbench.core.errors import DataError
from hostbench.core.journal import JournalWriter
from hostbench.core.records import Run
from hostbench.store import archive
from tests.fakes.builders import copy_case, create_case, failed, record, run, skipped, write_journal
from tests.stored import runs_of

CASES = [copy_case(blocking=blocking) for blocking in (True, False)]
RECORDS = [record(case, n, 0.1 * (n + 1)) for n in range(10) for case in CASES]
RUN = run(
    [*RECORDS, skipped(copy_case(memory="pinned")), failed(create_case(), seconds=3.0)],
    launches=10,
    damaged=[3],
)


def test_an_archive_is_the_same_wherever_it_is_written_and_never_written_over(
    tmp_path: Path,
) -> None:
    first, second = (archive.write(tmp_path / name, RUN) for name in "ab")
    before = first.read_bytes()
    assert second.read_bytes() == before
    assert archive.write(tmp_path / "a", run(RECORDS[:1])) == first
    assert first.read_bytes() == before
    text = gzip.decompress(before).decode()
    assert str(tmp_path) not in text and str(Path.home()) not in text


def test_what_a_newer_hostbench_wrote_is_no_damage(tmp_path: Path) -> None:
    path = archive.write(tmp_path, RUN)
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["hostbench"]["header"]["room"] = "attic"
    data["hostbench"]["records"][0]["humidity"] = 0.4
    assert archive.read(path, archive.packed(data)) == archive.read(path)
    newer = archive.packed({"hostbench": {"format": 2, "run": {}}})
    with pytest.raises(DataError) as caught:
        archive.read(path, newer)
    assert "format 2, this hostbench reads 1: update it" in str(caught.value)


# Journals

TWO = run([record(case) for case in CASES])


def orphans(results: Path) -> tuple[list[Run], list[str]]:
    warnings: list[str] = []
    return archive.adopt_orphans(results, warnings.append), warnings


def test_an_orphan_is_adopted(tmp_path: Path) -> None:
    path = write_journal(tmp_path, TWO, finish=False)
    assert archive.adopt_orphans(tmp_path, pytest.fail, untouched_s=60.0) == []
    with path.open("a") as file:
        file.write('{"kind": "ca')
    (adopted,), (warning,) = orphans(tmp_path)
    assert warning == f"archived run {adopted.run_id} as far as it got before it was killed"
    assert (adopted.finish, adopted.damaged) == (None, [5])
    assert not path.exists()
    assert archive.read(archive.path_of(tmp_path, adopted)).records == TWO.records
    assert [one.run_id for one in runs_of(tmp_path)] == [TWO.header.run_id]
    empty = write_journal(tmp_path, run([]), finish=False)
    assert orphans(tmp_path) == ([], []) and not empty.exists()


def test_a_live_one_is_left(tmp_path: Path) -> None:
    path = tmp_path / ".journals" / "live.journal.jsonl"
    with JournalWriter(path, TWO.header) as writer:
        writer.case(TWO.records[0])
        assert orphans(tmp_path) == ([], [])
        assert path.exists()
        writer.case(TWO.records[1])
    (adopted,), _ = orphans(tmp_path)
    assert adopted.records == TWO.records


def test_an_unreadable_one_is_named_and_left_and_the_next_one_adopted(tmp_path: Path) -> None:
    path = write_journal(tmp_path, TWO)
    bad = [path.with_name(f"{name}.journal.jsonl") for name in ("0", "1")]
    bad[0].write_text("no json\n")
    bad[1].mkdir()
    adopted, warnings = orphans(tmp_path)
    assert [one.header.run_id for one in adopted] == [TWO.header.run_id]
    assert len(warnings) == 2
    assert all(any(str(b) in warning for warning in warnings) for b in bad)
    assert bad[0].exists() and bad[1].exists()


def test_a_kill_between_archive_and_journal_is_made_good(tmp_path: Path) -> None:
    archive.write(tmp_path, TWO)
    path = write_journal(tmp_path, TWO)
    before = archive.path_of(tmp_path, TWO).read_bytes()
    orphans(tmp_path)
    assert not path.exists()
    assert archive.path_of(tmp_path, TWO).read_bytes() == before
