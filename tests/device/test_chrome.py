"""The one reader of Chrome traces: packed, odd, cut off, and no traces at all."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from hostbench.core.errors import DataError
from hostbench.device import chrome
from hostbench.device.chrome import read_chrome


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": f"k{number}", "ts": number, "dur": 1, **more}


EVENTS = [event(number, args={"bytes": number}) for number in range(3)]


def k5(**more: Any) -> str:
    return json.dumps(event(5, **more))


ODD = {
    "a bare NaN": k5(args={"bytes": 1, "speed": float("nan")}),
    "bare words": k5(args={"a": "inf", "b": "N/A"}).replace('"inf"', "inf").replace('"N/A"', "N/A"),
    "a line break in a name": k5().replace("k5", "k5\n"),
    "a byte that is not UTF-8": k5().replace("k5", "k5\udcff"),
    "a number as text": k5(args={"correlation": "12"}),
    "another shape": json.dumps(event(5, args=["a"])),
    "another kind of category": k5(cat=4),
}
"""Events that writers of traces have written."""


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_event_does_not_hide_the_others(tmp_path: Path, odd: str) -> None:
    """It is read, or counted where its shape is another."""
    texts = [*map(json.dumps, EVENTS), ODD[odd]]
    path = tmp_path / "trace.json"
    text = '{"traceEvents": [' + ", ".join(texts) + '], "distributedInfo": {"rank": 2}}'
    path.write_bytes(text.encode(errors="surrogateescape"))
    trace = read_chrome(path)
    is_read = not odd.startswith("another")
    assert [str(one.name)[:2] for one in trace.events] == ["k0", "k1", "k2", *["k5"] * is_read]
    assert (trace.rank, trace.num_left_out) == (2, not is_read)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is packed to."""
    monkeypatch.setattr(chrome, "_MAX_BYTES", 1000)
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(b" " * 1001))
    with pytest.raises(DataError, match="larger than"):
        read_chrome(path)
