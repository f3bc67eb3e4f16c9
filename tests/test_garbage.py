"""Whatever becomes of a stored file, what reads it gives a result, or one line that names it."""

import copy
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import convert, to_builtins

from hostbench.core.records import Done, Message, encoded
from hostbench.store import archive
from hostbench.store.nights import Night, NightChange
from tests.commands import hostbench
from tests.conftest import ODD
from tests.fakes.builders import COMMIT, COPY, GPU_FACTS, copy_case, record, run, write_journal
from tests.hostile import LATER, OTHER_COMMIT, RUN, an_entry, of_asv, packed
from tests.made_trace import MadeTrace

MOVED = NightChange(case=str(copy_case()), version="1", cause="code", effect=0.5)
NIGHT = Night(run_id=LATER, machine="shelf", commit=COMMIT, started_at=LATER, changes=(MOVED,))
FORMATS = ("text", "md", "json", "csv")
COMMANDS = (
    "report --machine shelf",
    "changes --all",
    f"compare {COMMIT[:8]} {OTHER_COMMIT[:8]}",
    "triage",
)
GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(ODD, max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(ODD, max_size=6), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(data: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a value stands in JSON, the whole left out."""
    inner = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in inner:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))


def spoiled(data: st.DataObject, whole: Any) -> Any:
    """With garbage in one place."""
    *path, last = data.draw(st.sampled_from([*places(whole)]))
    changed = inner = copy.deepcopy(whole)
    for key in path:
        inner = inner[key]
    inner[last] = data.draw(GARBAGE)
    return changed


def spoiled_file(data: st.DataObject, path: Path) -> bytes:
    """With garbage in place of a value, or of some bytes."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    if data.draw(st.booleans()):
        values = spoiled(data, [json.loads(line) for line in text.split(b"\n") if line])
        text = b"\n".join(json.dumps(value).encode() for value in values) + b"\n"
        return packed(text) if path.suffix == ".gz" else text
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.sampled_from((start, start + 1, len(raw))))
    return raw[:start] + data.draw(st.binary(max_size=3)) + raw[end:]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with a file of each kind, and a trace."""
    results = tmp_path_factory.mktemp("garbage") / "results"
    archive.write(results, RUN)
    cases = [copy_case(device="cuda", nbytes=nbytes) for nbytes in (1 << 12, 1 << 20)]
    records = [record(case, launch, 2e-4) for case in cases for launch in range(8)]
    about = {"commit": OTHER_COMMIT, "device": "cuda", "facts": {"before": GPU_FACTS}}
    archive.write(results, run(records, launches=8, run_id=LATER, **about))
    write_journal(results, run([record(copy_case())], run_id=LATER[:-1] + "3"))
    trace = MadeTrace()
    trace.kernel((0, 5), (10, 110))
    trace.sync((20, 115))
    trace.kernel((170, 175), (180, 300))
    for name, content in {
        "shelf/machine.json": {"machine": "shelf", "cpu": "A Toy CPU"},
        "shelf/1a2b3c4d-virtualenv-py3.11.json": of_asv(),
        "benchmarks.json": {"x.time_x": {"param_names": ["p", "q"], "unit": "seconds"}},
        "triage/a.txt": an_entry(series=f"{COPY}[nbytes=4KiB]@shelf"),
        f"shelf/nights/{LATER}.json.gz": to_builtins(NIGHT),
        "../trace.json": {"traceEvents": trace.events},
    }.items():
        path, raw = results / name, json.dumps(content).encode()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(packed(raw) if path.suffix == ".gz" else raw)
    return results.parent


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_garbage_in_a_file_is_more_than_a_line(whole: Path, data: st.DataObject) -> None:
    files = sorted(
        path for path in whole.rglob("*.*") if path.is_file() and "table" not in str(path)
    )
    root = whole.parent / "spoiled"
    shutil.copytree(whole / "results", root / "results")
    try:
        path = data.draw(st.sampled_from(files))
        spoilt = root / path.relative_to(whole)
        spoilt.write_bytes(spoiled_file(data, path))
        of_results = f"{data.draw(st.sampled_from(COMMANDS))} --results {root}/results"
        command = f"idle --trace {spoilt}" if path.name == "trace.json" else of_results
        words = (*command.split(), "--format", data.draw(st.sampled_from(FORMATS)))
        code, _, err = hostbench(*words, code=None)
    finally:
        shutil.rmtree(root)
    about = (command, code, err)
    assert code in (0, 2, 3, 4), about
    assert sum(spoilt.name in line for line in err.splitlines()) <= 1, about
    assert all(line.startswith("hostbench: ") for line in err.splitlines()), about


@given(st.data())
def test_no_garbage_in_a_message_is_more_than_an_error(data: st.DataObject) -> None:
    """The launcher's records of what a worker of any commit sends."""
    line = encoded(spoiled(data, json.loads(encoded(Done(record=record(copy_case()))))))
    try:
        convert(json.loads(line), Message)
    except ValueError as error:
        assert not isinstance(error, UnicodeError)
