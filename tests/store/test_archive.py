"""The archive: written once, read back whole, ignored by asv, and damage is named."""

import gzip
import json
from pathlib import Path

import pytest
from msgspec import convert, to_builtins

from hostbench.core.errors import DataError
from hostbench.core.records import Run
from hostbench.store import archive
from tests.fakes.builders import copy_case, create_case, failed, record, run, skipped

CASES = [copy_case(blocking=blocking) for blocking in (True, False)]
RECORDS = [record(case, n, 0.1 * (n + 1)) for n in range(10) for case in CASES]
RUN = run(
    [*RECORDS, skipped(copy_case(memory="pinned")), failed(create_case(), seconds=3.0)],
    launches=10,
    damaged=[3],
)


def test_the_round_trip(tmp_path: Path) -> None:
    path = archive.write(tmp_path, RUN)
    assert path == tmp_path / "shelf" / "runs" / f"{RUN.header.run_id}.json.gz"
    read = archive.read(path)
    assert read.archived and convert(to_builtins(read), Run) == RUN
    assert [str(one.case) for one in read.records] == [str(one.case) for one in RUN.records]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


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
    assert archive.parse(path, archive.packed(data)) == archive.read(path)
    newer = archive.packed({"hostbench": {"format": 2, "run": {}}})
    with pytest.raises(DataError) as caught:
        archive.parse(path, newer)
    assert str(caught.value) == (
        f"{path} was written by a newer hostbench (format 2, this one reads 1); "
        "update hostbench to read it"
    )
