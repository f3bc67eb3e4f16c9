"""The events of a trace file: cut into pieces anywhere, packed, cut off, damaged."""

import gzip
import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench.core.errors import DataError, UsageError
from hostbench.core.units import MIB
from hostbench.idle import reading
from hostbench.idle.reading import TraceFile
from tests.conftest import examples

HEAD: dict[str, Any] = {"schemaVersion": 1, "distributedInfo": {"rank": 3}}


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": f"k{number}", "ts": number, "dur": 1, **more}


def names(path: Path) -> tuple[list[Any], TraceFile]:
    file = TraceFile(path)
    return [one.name for events in file.events() for one in events], file


def written(path: Path, document: Any, **how: Any) -> Path:
    path.write_text(json.dumps(document, **how))
    return path


@examples(60, 2000)
@given(
    texts=st.lists(st.text('{}[],:" \\aé\n', max_size=12), max_size=12),
    piece=st.integers(1, 200),
    indent=st.sampled_from([None, 0, 2]),
    is_list=st.booleans(),
)
def test_any_cut_gives_the_same_events(
    texts: list[str], piece: int, indent: int | None, is_list: bool
) -> None:
    """Names and nested values that look like the border between two events are none."""
    events = [
        event(number, name=text, args={"nested": [{"a": text}, {"b": {}}], "bytes": number})
        for number, text in enumerate(texts)
    ]
    document = events if is_list else {**HEAD, "traceEvents": events, "traceName": "}, {"}
    with (
        mock.patch.object(reading, "_PIECE_BYTES", piece),
        tempfile.TemporaryDirectory() as folder,
    ):
        found, file = names(written(Path(folder) / "trace.json", document, indent=indent))
    assert found == texts
    assert not file.num_left_out
    assert file.rank == (None if is_list else 3)


def test_a_packed_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [event(1), event(2)]}).encode()))
    assert names(path)[0] == ["k1", "k2"]


def test_no_events(tmp_path: Path) -> None:
    found, file = names(written(tmp_path / "trace.json", {"traceEvents": []}))
    assert (found, file.num_left_out) == ([], 0)


@pytest.mark.parametrize("piece", (64, 4 * MIB))
@pytest.mark.parametrize("packed", (False, True))
def test_a_file_that_is_cut_off_is_an_error(
    tmp_path: Path, piece: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PIECE_BYTES", piece)
    data = json.dumps({"traceEvents": [event(number) for number in range(5)]}).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(data)[:-12] if packed else data[: data.index(b"k4")])
    with pytest.raises(DataError, match=r"trace\.json is damaged or cut off .* once more"):
        names(path)


def k5(**more: Any) -> str:
    return json.dumps(event(5, **more))


ODD = {
    "a bare NaN": k5(args={"bytes": 1, "speed": float("nan")}),
    "a bare nan": k5(args={"speed": 1e99}).replace("1e+99", "-nan"),
    "a bare N/A": k5(args={"speed": 1e99}).replace("1e+99", "N/A"),
    "a line break in a name": k5().replace("k5", "k5\n"),
    "a byte that is no UTF-8": k5().replace("k5", "k5\udcff"),
    "a number as text": k5(args={"correlation": "12"}),
}
"""Events that writers of traces have written."""


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("piece", (64, 4 * MIB))
@pytest.mark.parametrize("place", (0, 5, 8))
def test_an_odd_event_is_read(
    tmp_path: Path, odd: str, piece: int, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PIECE_BYTES", piece)
    texts = [json.dumps(event(number, args={"bytes": number})) for number in range(8)]
    texts.insert(place, odd)
    path = tmp_path / "trace.json"
    text = '{"traceEvents": [' + ", ".join(texts) + '], "distributedInfo": {"rank": 2}}'
    path.write_bytes(text.encode(errors="surrogateescape"))
    found, file = names(path)
    read = str(found.pop(place))
    assert read[:2] == "k5"
    assert found == [f"k{number}" for number in range(8)]
    assert (file.num_left_out, file.rank) == (0, 2)


@pytest.mark.parametrize("piece", (64, 4 * MIB))
def test_an_event_of_another_shape_is_left_out_and_counted(
    tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PIECE_BYTES", piece)
    events = [event(1), event(2, args=["a"]), event(3), event(4, cat=4)]
    found, file = names(written(tmp_path / "trace.json", {"traceEvents": events}))
    assert (found, file.num_left_out) == (["k1", "k3"], 2)


def test_what_follows_the_events_may_be_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PIECE_BYTES", 100)
    more = {"other": [{"a": number} for number in range(50)], "distributedInfo": {"rank": 2}}
    path = written(tmp_path / "trace.json", {"traceEvents": [event(1), event(2)], **more})
    found, file = names(path)
    assert (found, file.rank, file.num_left_out) == (["k1", "k2"], 2, 0)


def test_facts_that_are_no_json_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'{{"username": bad, "traceEvents": [{json.dumps(event(1))}]}}')
    assert names(path)[0] == ["k1"]


NO_TRACES = ("", "{}", "no json", '{"nodes": [1, 2]}', '{"a": 1}', "[[1, 2], [3]]", '[{"cat": 1}]')


@pytest.mark.parametrize("text", [*NO_TRACES, "[1, 2, 3]"])
def test_a_file_that_is_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(DataError, match="no trace of PyTorch's profiler"):
        names(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.json"):
        names(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot read"):
        names(tmp_path)


def test_memory_is_bounded_by_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen times the file, and the same peak."""
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1 << 16)

    def peak(num: int) -> int:
        path = written(tmp_path / "trace.json", {"traceEvents": list(map(event, range(num)))})
        tracemalloc.start()
        for _ in TraceFile(path).events():
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    small = peak(4_000)
    assert peak(64_000) < 1.5 * small
