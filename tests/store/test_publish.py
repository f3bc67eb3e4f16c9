"""A table at a URL: in a folder and on an S3 server; several publishers, one that was killed."""

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hostbench.core.errors import HostbenchError, UsageError
from hostbench.core.records import Run
from hostbench.store import archive, table
from hostbench.store import results as opening
from hostbench.store.points import case_rows
from hostbench.store.publish import publish
from hostbench.store.results import Results, version
from tests.commands import hostbench, python
from tests.fakes.builders import GPU_FACTS, copy_case, later, record, run
from tests.store.test_points import STARTED_MS, asv_file
from tests.store.test_results import same_rows

CASE = copy_case()
SERVER = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_CONDITIONAL_PUT": "etag",
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The endpoint of an S3 server of this process. It writes one object at a time: moto looks
    whether there is none and then writes, so that two writers at once could both be the first.
    What it takes is imported here: half a second that no other file needs."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    moto = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def answer(environ: Any, start_response: Any) -> Any:
        with lock if environ["REQUEST_METHOD"] == "PUT" else contextlib.nullcontext():
            return moto(environ, start_response)

    running = make_server("127.0.0.1", 0, answer, threaded=True)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/shared"
    import boto3

    endpoint = request.getfixturevalue("server")
    for name, value in {**SERVER, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket-{abs(hash(tmp_path))}"
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=bucket)
    return f"s3://{bucket}/results"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """The URL of a folder: for what a publisher does on its own side, which is the same on S3."""
    return f"file://{tmp_path}/shared"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs, one of another machine, asv's file."""
    folder = tmp_path / "results"
    first = run([record(CASE, 0, 0.5)], facts=GPU_FACTS)
    archive.write(folder, first)
    archive.write(folder, later(first, 10, 2, [record(CASE, 1, 0.25)]))
    archive.write(folder, another("table", 1))
    asv_file(folder)
    return folder


def another(machine: str, day: int, seconds: float = 0.25) -> Run:
    return run(
        [record(CASE, 0, seconds)],
        machine=machine,
        run_id=f"202611{day:02d}T120000Z-1a2b3c4d-{machine}",
        started_at=f"2026-11-{day:02d}T12:00:00.000Z",
    )


def test_the_same_answers_as_from_the_files(results: Path, url: str) -> None:
    sent = publish(results, url)
    assert sorted(str(row.source) for row in sent) == [*["archive"] * 3, "asv"]
    files, there = Results(results), Results(url)
    same_rows(there.frame(), files.frame())
    same_rows(there.counts, files.counts)
    same_rows(there.sides(), files.sides())
    assert there.runs() == files.runs() and there.machines() == files.machines()
    for stored in files.runs():
        assert case_rows(there.run(stored)) == case_rows(files.run(stored))
        assert there.facts(stored) == files.facts(stored)
    chosen = "shelf", [run.run_id for run in files.runs()][:1]
    same_rows(there.rows(*chosen), files.rows(*chosen))
    same_rows(there.trend("shelf", str(CASE)), files.trend("shelf", str(CASE)))


def test_a_table_of_another_format_is_refused(
    results: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(results, place)
    monkeypatch.setattr(table, "DESCRIPTION", "hostbench results, format 0")
    with pytest.raises(UsageError, match=r"is of another version .* publish to another URL"):
        Results(place)
    with pytest.raises(UsageError, match="is of another version"):
        publish(results, place)


def test_only_what_is_lacking_is_sent(results: Path, place: str) -> None:
    publish(results, place)
    assert publish(results, place) == []
    clone = shutil.copytree(results, results.parent / "clone", copy_function=shutil.copyfile)
    assert publish(clone, place) == []
    archive.write(clone, another("attic", 2))
    assert [row.machine for row in publish(clone, place)] == ["attic"]
    asv_file(results, STARTED_MS + 60_000)
    assert [(row.source, row.rows) for row in publish(results, place)] == [("asv", 2)]  # changed
    there = Results(place)
    assert there.machines() == ["attic", "shelf", "table"]


def test_many_publish_at_once(tmp_path: Path, url: str) -> None:
    machines = [f"m{number}" for number in range(4)]
    for machine in machines:
        archive.write(tmp_path / machine, another(machine, 1))
        archive.write(tmp_path / machine, another("shared", 2))
        Results(tmp_path / machine)
    publish(tmp_path / machines[0], url)
    ready = threading.Barrier(3)

    def send(machine: str) -> None:
        ready.wait()
        publish(tmp_path / machine, url)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(send, machines[1:]))
    there = Results(url)
    assert there.machines() == [*machines, "shared"]
    assert len(there.frame()) == len(there.runs()) == 5


def test_a_table_with_one_more_field(results: Path, place: str) -> None:
    """As a later hostbench, or somebody else, may have added one."""
    publish(results, place)
    expected = Results(place).frame()
    row = pa.table({"kind": ["other"], "file": ["x"], "extra": ["y"]})
    write_deltalake(place, row, mode="append", schema_mode="merge")
    same_rows(Results(place).frame(), expected)
    archive.write(results, another("attic", 2))
    assert [row.rows for row in publish(results, place)] == [1]
    same_rows(Results(place).frame(), Results(results).frame())


def test_a_large_table_shows_its_newest(
    results: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(results, place)
    monkeypatch.setattr(opening, "MAX_POINTS", 2)
    there = Results(place)
    [warning] = there.warnings
    assert "has 5 points, more than the 2 that are read: 3 files are left out" in warning
    assert there.machines() == ["shelf"] and len(there.frame()) == 1
    assert len(there.points("shelf", ["case"])) == 1


def test_the_commands_read_a_url(results: Path, place: str) -> None:
    chosen = Results(results).runs()[0].run_id
    assert "3 runs, 1 other files" in hostbench("publish", place, "--results", results).out
    said = []
    for where in (place, str(results)):
        words = ("--results", where, "--run", chosen, "--format", "json")
        said.append(json.loads(hostbench("report", *words).out))
    assert said[0] == said[1]
    assert {case["ceiling"] for case in said[0]["cases"]} == {"none on the cpu device"}
    assert "needs a folder" in hostbench("triage", "--results", place, code=2).err
    again = python("-m", "hostbench", "publish", place, "--results", str(results), RUST_LOG="debug")
    assert "DEBUG deltalake" in again.err, "the log that was asked for"


UNKNOWN = "there is no table at nosuch://x .Unknown scheme: nosuch. Known schemes: "


def test_there_is_none(tmp_path: Path, results: Path) -> None:
    (tmp_path / "file").write_text("")
    for ask, url, why in (
        (Results, f"file://{tmp_path}/absent", "hostbench publish"),
        (Results, "nosuch://x", UNKNOWN),
        (lambda url: publish(results, url), "nosuch://x", UNKNOWN),
        (lambda url: publish(results, url), f"file://{tmp_path}/file/table", "cannot write"),
    ):
        with pytest.raises(HostbenchError, match=why):
            ask(url)


def test_one_that_is_damaged_is_named(tmp_path: Path, results: Path, place: str) -> None:
    publish(results, place)
    history = Results(place)
    assert version(place) >= 0
    for path in (tmp_path / "shared" / "kind=point").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(UsageError, match="cannot read the table at file://"):
        history.frame()
    for path in (tmp_path / "shared" / "_delta_log").glob("*.json"):
        path.write_text("{")
    for ask in (Results, version):
        with pytest.raises(UsageError, match="cannot read the table at file://"):
            ask(place)
