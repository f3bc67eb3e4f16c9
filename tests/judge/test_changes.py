"""`hostbench changes --input`: JSON lines in, JSON lines out, and clear words for bad ones."""

import errno
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostbench.cli import main
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    EXIT_USAGE,
)


def step(at: int, size: float, num: int = 100, seed: int = 0) -> list[float]:
    logs = np.random.default_rng(seed).normal(math.log(1e-3), 0.005, num)
    logs[at:] += math.log1p(size)
    return np.exp(logs).tolist()


class Told:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.err = code, err
        self.lines = [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*series: object) -> Told:
        rows = (s if isinstance(s, bytes | str) else json.dumps(s) for s in series)
        data = b"".join((s.encode() if isinstance(s, str) else s) + b"\n" for s in rows)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))
        code = main(["changes", "--input", "-"])
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    return run


def test_a_line_for_each_change(changes: Any) -> None:
    told = changes(
        {"id": "slower", "values": step(50, 0.1), "group": "box"},
        {"id": "quiet", "values": step(50, 0.0, seed=1), "group": "box"},
    )
    assert told.code == EXIT_REGRESSION and told.err == ""
    (line,) = told.lines
    assert list(line) == ["id", "index", "effect", "state"]
    assert (line["id"], line["index"], line["state"]) == ("slower", 50, "confirmed")
    assert line["effect"] == pytest.approx(0.1, abs=0.005)


def test_only_a_confirmed_slower_level_is_a_regression(changes: Any) -> None:
    assert changes({"id": "a", "values": step(50, -0.1)}).code == EXIT_OK
    assert changes({"id": "a", "values": step(50, 0.0)}).code == EXIT_OK
    told = changes({"id": "a", "values": step(96, 0.1)})
    assert told.code == EXIT_OK and told.lines[0]["state"] == "provisional"


def test_a_break_near_the_end_hides_no_step_before_it(changes: Any) -> None:
    values = [1.0] * 40 + [1.5] * 42
    told = changes({"id": "a", "values": values, "breaks": [80]})
    assert (told.code, told.err) == (EXIT_REGRESSION, "")
    assert [line["index"] for line in told.lines] == [40, 80]
    told = changes({"id": "a", "values": [1.0] * 12 + [math.nan] * 2, "breaks": [6]})
    assert told.code == EXIT_NOTHING_MEASURED
    assert "the longest piece has 6, 11 are needed" in told.err


def test_the_machine_has_a_line_of_its_own(changes: Any) -> None:
    told = changes(
        *({"id": f"s{i}", "values": step(50, 0.05, seed=i), "group": "box"} for i in range(8)),
        *({"id": f"t{i}", "values": step(50, 0.0, seed=i), "group": "other"} for i in range(8)),
    )
    assert [(line["id"], line["index"]) for line in told.lines] == [("machine:box", 50)]


def test_a_temporary_event_says_until_when(changes: Any) -> None:
    values = step(50, 0.2)
    values[58:] = [value / 1.2 for value in values[58:]]
    told = changes({"id": "a", "values": values})
    assert told.code == EXIT_OK
    (line,) = told.lines
    assert (line["index"], line["until"], line["kind"]) == (50, 58, "temporary")


def test_missing_points_breaks_and_keys_of_others(changes: Any) -> None:
    values: list[float | None] = [*step(50, 0.3)]
    values[10], values[20] = None, None
    line = {"id": "a", "values": values, "group": None, "breaks": [50], "colour": "red"}
    told = changes(json.dumps(line).replace("null, ", "NaN, ", 1))
    assert [(c["index"], c["kind"], c["effect"]) for c in told.lines] == [(50, "break", None)]
    assert told.code == EXIT_OK


def test_any_name_and_any_size_come_through(changes: Any) -> None:
    told = changes({"id": "\ud800 \u00e9", "values": [1e-300] * 40 + [1e300] * 40})
    (line,) = told.lines
    assert line["id"] == "\ud800 \u00e9" and math.isfinite(line["effect"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2 is not a series in JSON"),
        ("[1, 2]", "Expected `object`, got `array`"),
        ('{"values": [1]}', "missing required field `id`"),
        ('{"id": "b"}', "missing required field `values`"),
        ('{"id": 3, "values": []}', "Expected `str`, got `int` - at `$.id`"),
        ('{"id": "b", "values": [], "group": 7}', "got `int` - at `$.group`"),
        ('{"id": "b", "values": "1 2"}', "Expected `array`, got `str` - at `$.values`"),
        ('{"id": "b", "values": [1, "2"]}', "got `str` - at `$.values[1]`"),
        ('{"id": "b", "values": [1, true]}', "got `bool` - at `$.values[1]`"),
        ('{"id": "b", "values": [1, 0]}', "value 1 is 0"),
        ('{"id": "b", "values": [null, -2.5]}', "value 1 is -2.5"),
        ('{"id": "b", "values": [[1]]}', "got `array` - at `$.values[0]`"),
        ('{"id": "b", "values": [1, 1' + "0" * 400 + "]}", "out of range - at `$.values[1]`"),
        ('{"id": "b", "values": [null, 1e400]}', "value 1 is inf"),
        ('{"id": "b", "values": [NaN, Infinity]}', "value 1 is inf"),
        ('{"id": "b", "values": [-Infinity]}', "value 0 is -inf"),
        ('{"id": "machine:b", "values": []}', "id 'machine:b' begins with machine:"),
        (b'{"id": "\xe9", "values": []}', "'utf-8' codec can't decode byte 0xe9 in position 8"),
        (
            '{"id": "b", "values": [], "breaks": [1.5]}',
            "Expected `int`, got `float` - at `$.breaks[0]`",
        ),
        ('{"id": "a", "values": []}', "id 'a' was on line 1 already"),
        ("[" * 100_000, "line 2 is not a series in JSON"),
    ],
)
def test_a_bad_line_is_one_line_of_error(changes: Any, line: str | bytes, words: str) -> None:
    told = changes({"id": "a", "values": [1.0]}, line)
    assert (told.code, told.lines) == (EXIT_USAGE, [])
    assert words in told.err and "line 2" in told.err
    assert told.err.count("\n") == 1 and len(told.err) < 400


def test_bad_lines_leave_the_others_to_be_judged(changes: Any) -> None:
    bad = ["{"] * 13
    told = changes(*bad[:2], {"id": "a", "values": step(50, 0.1)}, *bad[2:])
    assert told.code == EXIT_USAGE
    assert [(line["id"], line["index"]) for line in told.lines] == [("a", 50)]
    said = told.err.splitlines()
    assert "line 2 " in said[1] and "line 4 " in said[2]
    assert len(said) == 11 and said[-1] == "hostbench: and 3 more"
    assert changes({"id": "a", "values": [1.0]}, "{").err.count("\n") == 1


@pytest.mark.parametrize("closed", [False, True])
def test_standard_input_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], closed: bool
) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("sys.stdin", None if closed else io.TextIOWrapper(Broken()))
    assert main(["changes", "--input", "-"]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert ("standard input is closed" if closed else "standard input cannot be read") in err


def test_a_full_disk_is_one_line_of_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "series.jsonl"
    path.write_text(json.dumps({"id": "a", "values": step(50, 0.1)}))
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert main(["changes", "--input", str(path)]) == EXIT_FAILED
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "standard output cannot be written: No space left" in err


def test_nothing_to_judge(changes: Any) -> None:
    assert changes().code == EXIT_NOTHING_MEASURED
    assert changes("", "  ").code == EXIT_NOTHING_MEASURED
    told = changes({"id": "a", "values": [1.0, 2.0]})
    assert told.code == EXIT_NOTHING_MEASURED
    assert "the longest piece has 2, 11 are needed" in told.err


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "series.jsonl"
    path.write_text(json.dumps({"id": "a", "values": step(50, 0.1)}) + "\n\n")
    assert main(["changes", "--input", str(path)]) == EXIT_REGRESSION
    path.write_bytes(
        json.dumps({"id": "\u00e9", "values": [1]}, ensure_ascii=False).encode("utf-16")
    )
    assert main(["changes", "--input", str(path)]) == EXIT_USAGE
    assert main(["changes", "--input", str(tmp_path / "none")]) == EXIT_USAGE
    assert main(["changes", "--input", str(tmp_path)]) == EXIT_USAGE
    err = capsys.readouterr().err.splitlines()
    assert [line.startswith("hostbench: ") for line in err] == [True] * 3
    assert "'utf-8' codec" in err[0] and "cannot be read" in err[1]
