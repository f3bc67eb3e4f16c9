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
    assert not file.warnings
    assert file.rank == (None if is_list else 3)
    assert file.num_bytes == len(json.dumps(document, indent=indent).encode())


def test_a_packed_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [event(1), event(2)]}).encode()))
    assert names(path)[0] == ["k1", "k2"]


def test_no_events(tmp_path: Path) -> None:
    found, file = names(written(tmp_path / "trace.json", {"traceEvents": []}))
    assert (found, file.warnings) == ([], [])


@pytest.mark.parametrize("piece", (64, 4 * MIB))
@pytest.mark.parametrize("packed", (False, True))
def test_what_stands_before_the_end_of_a_cut_off_file_is_read(
    tmp_path: Path, piece: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PIECE_BYTES", piece)
    data = json.dumps({"traceEvents": [event(number) for number in range(5)]}).encode()
    data = data[: data.index(b"k4")]
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(data)[:-8] if packed else data)
    found, file = names(path)
    assert found[:3] == ["k0", "k1", "k2"]
    (warning,) = file.warnings
    assert "cut off" in warning
    assert "trace.json" in warning


def k5(**more: Any) -> str:
    return json.dumps(event(5, **more))


ODD = {
    "a bare NaN": k5(args={"bytes": 1, "speed": float("nan")}),
    "a bare nan": k5(args={"speed": 1e99}).replace("1e+99", "-nan"),
    "a bare N/A": k5(args={"speed": 1e99}).replace("1e+99", "N/A"),
    "a line break in a name": k5().replace("k5", "k5\n"),
    "an escape that is none": k5().replace("k5", "k5\\x"),
    "a byte that is no UTF-8": k5().replace("k5", "k5\udcff"),
    "args that are a list": k5(args=[{"a": 1}, {"b": 2}]),
    "args that are a text": k5(args="none"),
    "a correlation that is true": k5(args={"correlation": True}),
    "a category that is a number": k5(cat=5),
    "a number that is too large": k5(dur=1).replace('"dur": 1', '"dur": 1e400'),
}
"""Events that writers of traces have written, or might."""


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
    assert (file.warnings, file.rank) == ([], 2)


@pytest.mark.parametrize("piece", (64, 4 * MIB))
@pytest.mark.parametrize("place", (0, 5, 8))
@pytest.mark.parametrize("wrong", ('"k{}', '"k{}" again"', '"k{}", ['))
def test_an_event_that_cannot_be_read_is_left_out_and_counted(
    tmp_path: Path, piece: int, place: int, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two of them, the last too, where it is followed by the facts."""
    monkeypatch.setattr(reading, "_PIECE_BYTES", piece)
    monkeypatch.setattr(reading, "_LONGEST_BYTES", 4096)
    text = json.dumps(
        {"traceEvents": [event(number) for number in range(9)], "baseTimeNanoseconds": 7}
    )
    for each in {place, 7}:
        text = text.replace(f'"k{each}"', wrong.format(each))
    path = tmp_path / "trace.json"
    path.write_text(text)
    found, file = names(path)
    assert found == [f"k{number}" for number in range(9) if number not in {place, 7}]
    assert file.base_ns == 7
    (warning,) = file.warnings
    at = text.rindex("{", 0, text.index(wrong.format(min(place, 7))))
    assert f"2 events left out that cannot be read, the first at byte {at:,}" in warning


def test_a_cut_off_file_names_the_event_that_was_begun(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [event(number) for number in range(5)]})
    path = tmp_path / "trace.json"
    path.write_text(text[: text.index("k4")])
    (warning,) = names(path)[1].warnings
    begun = text.rindex("{", 0, text.index("k4"))
    assert f"cut off or damaged at byte {begun:,}; what stands before that was read" in warning


def test_many_odd_events_take_no_longer_than_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is decoded a few times, and not once for each of the others."""
    num, sizes, one = 2000, list[int](), reading._EVENTS

    class Counting:
        def decode(self, text: bytes) -> Any:
            sizes.append(1)
            return one.decode(text)

    monkeypatch.setattr(reading, "_EVENTS", Counting())
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event(n, args=[n]) for n in range(num)]}))
    assert len(names(path)[0]) == num
    assert len(sizes) < 3 * num


def test_what_follows_the_events_may_be_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PIECE_BYTES", 100)
    more = {"other": [{"a": number} for number in range(50)], "distributedInfo": {"rank": 2}}
    path = written(tmp_path / "trace.json", {"traceEvents": [event(1), event(2)], **more})
    found, file = names(path)
    assert (found, file.rank, file.warnings) == (["k1", "k2"], 2, [])


def test_facts_that_are_no_json_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'{{"username": bad, "traceEvents": [{json.dumps(event(1))}]}}')
    assert names(path)[0] == ["k1"]


@pytest.mark.parametrize("text", ("", "{}", "no json", '{"nodes": [1, 2]}', '{"a": 1}'))
def test_a_file_that_is_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(DataError, match="no trace of PyTorch's profiler"):
        names(path)


@pytest.mark.parametrize("events", ("[[1, 2], [3]]", '[{"cat": 1}]', "[1, 2, 3]"))
def test_a_list_of_something_else(tmp_path: Path, events: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(events)
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
