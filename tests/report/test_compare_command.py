"""`hostbench compare` on stored runs: sides, table, exit codes."""

import json
import re
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from msgspec.structs import replace

from hostbench.cli.entry import main
from hostbench.core.case import as_typed
from hostbench.core.clock import epoch_s
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    EXIT_USAGE,
)
from hostbench.judge.two_sides import LEAST_RUNS
from hostbench.store import archive
from tests.fakes import builders

OLD, NEW = "a" * 40, "b" * 40


CASES = [builders.copy_case(nbytes=size) for size in (1024, 2048, 4096)]
SHOWN = [as_typed(str(case)) for case in CASES]


def stored(
    results: Path, commit: str, factors: tuple[float, ...], launches: int = 10, **header: Any
) -> str:
    """A run whose cases take `factors` seconds, with a little noise; returns its id."""
    records = [
        builders.record(case, launch, factor * (1 + 0.001 * ((launch * 7 + place) % 10)))
        for place, (case, factor) in enumerate(zip(CASES, factors, strict=False))
        for launch in range(launches)
    ]
    run_id = f"20261121T000000Z-{commit[:8]}-{len(list(results.rglob('*.gz'))):04d}"
    part = builders.run(records, run_id=run_id, commit=commit, launches=launches, **header)
    started_ms = int(epoch_s(builders.STARTED) * 1000)
    archive.write(
        results, replace(part, asv_rows=[["transfer.HostToDevice.track_seconds", started_ms]])
    )
    return run_id


def level(results: Path, factors: tuple[float, ...], commit: str = OLD, **header: Any) -> None:
    """As many runs as a level needs."""
    for _ in range(LEAST_RUNS):
        stored(results, commit, factors, **header)


def test_slower_rows_are_named_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level(tmp_path, (1.0, 1.0, 1.0))
    stored(tmp_path, NEW, (1.0, 1.5, 0.8))
    assert main(["compare", OLD[:8], NEW[:8], "--results", str(tmp_path)]) == EXIT_REGRESSION
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "aaaaaaaa -> bbbbbbbb: 1 slower, 1 faster, 1 same"
    assert re.search(r"slower .* 1\.5\d? s +\+50\.0% .* 5\+1 runs", said) and "-20.0%" in said
    assert "Half of the series would show a change of 0." in said
    assert "nbytes=1KiB" not in said
    again = f"hostbench compare {OLD[:8]} {NEW[:8]} --results {tmp_path} --all"
    assert f"not listed: 1 same; `{again}` lists them\n" in said
    assert main(["compare", NEW[:8], OLD[:8], "--all", "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "nbytes=1KiB" in said and "not listed" not in said


def test_where_most_of_a_machine_moved_it_may_be_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostbench.report.comparison.MIN_SERIES", 2)
    level(tmp_path, (1.0, 1.0, 1.0))
    stored(tmp_path, NEW, (1.2, 1.3, 1.0))
    main(["compare", OLD, NEW, "--results", str(tmp_path)])
    assert "2 of 3 series of shelf are slower: it may be the machine" in capsys.readouterr().out


def test_launches_of_partial_runs_never_add_up_to_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of 4 launches is never judged. Beside whole runs it counts for nothing."""
    for _ in range(5):
        stored(tmp_path, OLD, (1.0,), launches=4)
    stored(tmp_path, NEW, (2.0,))
    args = ["compare", OLD, NEW, "--all", "--results", str(tmp_path)]
    assert main(args) == EXIT_NOTHING_MEASURED
    said = capsys.readouterr().out
    assert "1 undecided: made one after the other; `hostbench ab` or 4 more runs decide" in said
    level(tmp_path, (2.0,))
    assert main(args) == EXIT_OK
    assert "1 same" in capsys.readouterr().out


def test_the_verdict_stands_when_nobody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: IO[str]
) -> None:
    level(tmp_path, (1.0, 1.0, 1.0))
    stored(tmp_path, NEW, (1.0, 1.5, 0.8))
    args = ["compare", OLD, NEW, "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "stdout", unread)
    assert main(args) == EXIT_REGRESSION


def test_nothing_slower_is_0_and_nothing_decided_is_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level(tmp_path, (1.0, 1.0))
    stored(tmp_path, NEW, (1.0, 0.9))
    folder = ["--results", str(tmp_path)]
    assert main(["compare", OLD, NEW, *folder]) == EXIT_OK
    few = tmp_path / "few"
    stored(few, OLD, (1.0,))
    stored(few, NEW, (2.0,))
    assert main(["compare", OLD, NEW, "--results", str(few)]) == EXIT_NOTHING_MEASURED
    assert "made one after the other; `hostbench ab` or 4 more runs" in capsys.readouterr().out


def test_one_side_alone_is_held_against_the_runs_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the older of two that has too few runs of its own; whichever is named first. What left
    that level before is not called."""
    folder = ["--results", str(tmp_path)]
    for day in range(8):
        at = f"2026-11-{day + 1:02d}T00:00:00Z"
        seconds = (1.0, 1.0, 1.2 if day > 5 else 1.0) if day < 7 else (1.0, 1.5, 1.2)
        stored(tmp_path, f"{day}" * 40, seconds, committed_at=at)
    assert main(["compare", "7777", *folder, "--all"]) == EXIT_REGRESSION
    said = capsys.readouterr().out
    assert said.startswith("the level of the runs before -> 7777: 1 slower, 1 undecided, 1 same\n")
    assert "7+1 runs" in said
    assert main(["compare", "6666", "7777", *folder]) == EXIT_REGRESSION
    assert capsys.readouterr().out.startswith("6666 -> 7777: 1 slower, 1 undecided, 1 same\n")
    assert main(["compare", "7777", "6666", *folder]) == EXIT_OK
    assert "1+7 runs" in capsys.readouterr().out
    assert main(["compare", "machine:shelf", *folder]) == EXIT_USAGE
    assert "has no runs before it: name a commit or a run, or two" in capsys.readouterr().err


def test_json_says_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    level(tmp_path, (1.0, 1.0, 1.0))
    stored(tmp_path, NEW, (1.05, 1.5))
    args = ["compare", OLD, NEW, "--format", "json", "--results", str(tmp_path)]
    assert main(args) == EXIT_REGRESSION
    said = json.loads(capsys.readouterr().out)
    assert said["counts"] == {"slower": 2}
    first = said["series"][0]
    assert first["series"] == f"{CASES[1]}@{builders.header().machine}"
    assert (first["before_s"], first["after_s"]) == pytest.approx((1.0, 1.5), rel=0.01)
    assert 0 < said["detectable_effect"] < 0.02
    assert first["effect"] == pytest.approx(0.5, abs=0.01) and first["num_first"] == 5
    assert said["without_number"] == [
        {
            "series": f"{CASES[2]}@{builders.header().machine}",
            "side": "second",
            "status": "not measured",
            "reason": "",
            "other_side_has_one": True,
        }
    ]


def test_markdown_is_a_table_and_text_from_files_no_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level(tmp_path, (1.0,), machine="a`b\u202e")
    stored(tmp_path, NEW, (2.0,), machine="a`b\u202e")
    main(["compare", OLD, NEW, "--format", "md", "--results", str(tmp_path)])
    out = capsys.readouterr().out
    assert out.startswith(f"## {OLD} -\\> {NEW}: 1 slower\n\n| verdict |")
    assert re.search(r"\| slower \| 1 s \| 2(\.01)? s \| \+100\.0% \|", out)
    assert f"| `` {SHOWN[0]}@a`b `` |" in out


def test_runs_and_machines_are_sides_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = stored(tmp_path, OLD, (1.0,), machine="left")
    second = stored(tmp_path, OLD, (1.5,), machine="right", scratch="quick")
    folder = ["--results", str(tmp_path)]
    assert main(["compare", f"run:{first}", f"run:{second}", *folder]) == EXIT_NOTHING_MEASURED
    capsys.readouterr()  # two machines are two series, unless machines are compared
    level(tmp_path, (1.5,), machine="third")
    assert main(["compare", "machine:left", "machine:third", *folder]) == EXIT_REGRESSION
    assert f"{SHOWN[0]}\n" in capsys.readouterr().out
    assert main(["compare", "machine:left", "machine:right", *folder]) == EXIT_NOTHING_MEASURED
    assert "no run that may be judged has 'machine:right'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("side", "code", "said"),
    [
        ("colour:red", EXIT_USAGE, "cannot read 'colour:red'"),
        ("no-such-branch", EXIT_USAGE, "git knows no 'no-such-branch'"),
        ("machine:shlf", EXIT_NOTHING_MEASURED, "has 'machine:shlf' (did you mean 'shelf'?)"),
        (NEW[:3], EXIT_USAGE, "a commit (4 digits or more)"),
    ],
)
def test_a_side_that_is_none_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str, code: int, said: str
) -> None:
    stored(tmp_path, OLD, (1.0,))
    stored(tmp_path, NEW, (1.0,))
    assert main(["compare", OLD, side, "--results", str(tmp_path)]) == code
    assert said in capsys.readouterr().err


def test_scratch_runs_and_other_machines_are_no_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, OLD, (1.0,), scratch="quick")
    folder = ["--results", str(tmp_path)]
    assert main(["compare", OLD, OLD, *folder]) == EXIT_NOTHING_MEASURED
    assert f"no run of '{OLD}' ({OLD[:8]}) that may be judged" in capsys.readouterr().err
    assert main(["compare", OLD, OLD, "--machine", "shlf", *folder]) == EXIT_NOTHING_MEASURED
    assert "no run of machine 'shlf' is stored (did you mean 'shelf'?)" in capsys.readouterr().err


def test_an_old_version_is_another_series(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, OLD, (1.0,))
    records = [builders.record(CASES[0], launch, 2.0, version="2") for launch in range(10)]
    archive.write(tmp_path, builders.run(records, run_id="20261122T000000Z-b-1", commit=NEW))
    args = ["compare", OLD, NEW, "--results", str(tmp_path)]
    assert main(args) == EXIT_NOTHING_MEASURED
    out = capsys.readouterr().out
    assert "of another version at" in out and f"{SHOWN[0]}@shelf: version 1 there, 2 here" in out
    assert "not measured" not in out


def test_failed_skipped_and_not_measured_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, OLD, (1.0, 1.0, 1.0))
    records = [builders.failed(CASES[0], "it\x1b broke"), builders.skipped(CASES[1])]
    archive.write(tmp_path, builders.run(records, run_id="20261122T000000Z-b-1", commit=NEW))
    folder = ["--results", str(tmp_path)]
    assert main(["compare", OLD[:8], NEW[:8], *folder]) == EXIT_FAILED
    shelf = builders.header().machine
    assert capsys.readouterr().out.splitlines() == [
        "aaaaaaaa -> bbbbbbbb: no series has numbers on both sides",
        "",
        "failed at bbbbbbbb, with a number at aaaaaaaa: 1 case",
        f"  {SHOWN[0]}@{shelf}: it  broke",
        "not measured at bbbbbbbb, with a number at aaaaaaaa: 1 case",
        f"  {SHOWN[2]}@{shelf}",
        "skipped at bbbbbbbb, with a number at aaaaaaaa: 1 case",
        f"  {SHOWN[1]}@{shelf}: needs a GPU",
    ]
    assert main(["compare", NEW, OLD, *folder]) == EXIT_NOTHING_MEASURED


def test_machines_are_compared_at_the_commits_that_both_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The right one came with slower commits; at those that both measured nothing differs."""
    folder = ["--results", str(tmp_path), "--format", "json"]
    for number in range(12):
        machine, seconds = ("left", 1.0) if number < 6 else ("right", 1.5)
        stored(tmp_path, f"{number:040x}", (seconds, seconds), machine=machine)
    assert main(["compare", "machine:left", "machine:right", *folder]) == EXIT_REGRESSION
    result = json.loads(capsys.readouterr().out)
    assert {(row["verdict"], row["provisional"]) for row in result["series"]} == {("slower", True)}
    assert "other commits and dates" in result["notes"][0]
    for number in range(6):
        stored(tmp_path, f"{number:040x}", (1.0,), machine="right")
    assert main(["compare", "machine:left", "machine:right", *folder]) == EXIT_REGRESSION
    rows = json.loads(capsys.readouterr().out)["series"]
    assert {row["series"]: (row["verdict"], row["provisional"]) for row in rows} == {
        str(CASES[0]): ("same", False),
        str(CASES[1]): ("slower", True),
    }
