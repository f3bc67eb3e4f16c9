"""`hostbench compare` on stored runs: which runs and series are put side by side, what is said of
them, exit codes, and the comment on a pull request."""

import json
import re
from collections.abc import Sequence
from html import escape
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from hostbench.core.case import as_typed
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    EXIT_USAGE,
)
from hostbench.core.records import CaseRecord
from hostbench.judge.two_sides import LEAST_RUNS, Comparison
from hostbench.report.comparison import MARKER, Compared, comment, comment_of, in_order
from hostbench.report.sides import Key
from hostbench.report.write import code
from hostbench.store import archive
from tests import asv_project
from tests.commands import hostbench
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
    own = {"run_id": run_id, "commit": commit, "launches": launches, **header}
    part = builders.run(records, **own)
    archive.write(results, part)
    return part.run_id


def level(results: Path, factors: tuple[float, ...], commit: str = OLD, **header: Any) -> None:
    """As many runs as a level needs."""
    for _ in range(LEAST_RUNS):
        stored(results, commit, factors, **header)


def on_day(results: Path, day: int, records: Sequence[CaseRecord], **header: Any) -> None:
    run_id = f"202611{day:02d}T000000Z-{NEW[:8]}-{99 - day:04d}"
    started = {"started_at": f"2026-11-{day:02d}T12:00:00.000Z", "commit": NEW}
    archive.write(results, builders.run(records, run_id=run_id, **started | header))


class Shell:
    """`hostbench compare` on one results folder."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.out = self.err = ""

    def __call__(self, *args: str) -> int:
        exit_code, self.out, self.err = hostbench(
            "compare", *args, "--results", self.results, code=None
        )
        return exit_code

    def rows(self, *args: str) -> tuple[int, list[dict[str, Any]]]:
        return self(*args, "--format", "json"), json.loads(self.out)["series"]

    def verdicts(self, *args: str) -> tuple[int, set[str]]:
        exit_code, rows = self.rows(*args)
        return exit_code, {row["verdict"] for row in rows}


@pytest.fixture
def compare(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# ---- the page -----------------------------------------------------------------------------------


def test_what_changed_is_named_and_the_rest_counted(compare: Shell) -> None:
    level(compare.results, (1.0, 1.0, 1.0))
    stored(compare.results, NEW, (1.0, 1.5, 0.8))
    assert compare(OLD[:8], NEW[:8]) == EXIT_REGRESSION
    assert compare.out.splitlines()[0] == "aaaaaaaa -> bbbbbbbb: 1 slower, 1 faster, 1 same"
    assert re.search(r"slower .* 1\.5\d? s +\+50\.0% .* 5\+1 runs", compare.out)
    assert "-20.0%" in compare.out and "nbytes=1KiB" not in compare.out
    assert "Half of the series would not show a change under 0." in compare.out
    assert "not listed: 1 same; `hostbench compare` lists them with --all\n" in compare.out
    assert compare(NEW[:8], OLD[:8], "--all") == EXIT_REGRESSION
    assert "nbytes=1KiB" in compare.out and "not listed" not in compare.out
    _, (first, *_) = compare.rows(OLD, NEW)
    assert first["series"] == f"{CASES[1]}@{builders.header().machine}"
    assert (first["before_s"], first["after_s"]) == pytest.approx((1.0, 1.5), rel=0.01)
    assert first["effect"] == pytest.approx(0.5, abs=0.01) and first["num_first"] == 5


def test_where_most_of_a_machine_moved_it_may_be_the_machine(
    compare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostbench.report.comparison.MIN_SERIES", 2)
    level(compare.results, (1.0, 1.0, 1.0))
    stored(compare.results, NEW, (1.2, 1.3, 1.0))
    compare(OLD, NEW)
    assert "2 of 3 series of shelf are slower: it may be the machine" in compare.out


def test_partial_runs_are_not_judged_and_single_ones_undecided(compare: Shell) -> None:
    """Launches of runs of 4 never add up to a verdict."""
    for _ in range(5):
        stored(compare.results, OLD, (1.0,), launches=4)
    stored(compare.results, NEW, (0.9,))
    assert compare.verdicts(OLD, NEW) == (EXIT_NOTHING_MEASURED, {"new"})
    assert "4 launches, under 7" in compare.out
    stored(compare.results, OLD, (1.0,))
    assert compare(OLD, NEW) == EXIT_NOTHING_MEASURED
    assert "1 undecided: `hostbench ab` or more runs (not scratch) will help" in compare.out
    why = "made one after the other; 4 more runs (not scratch) or both interleaved will"
    assert why in compare.out
    level(compare.results, (1.0,))
    assert compare.verdicts(OLD, NEW) == (EXIT_OK, {"faster"})


def test_failed_skipped_not_measured_and_another_version_are_told_apart(compare: Shell) -> None:
    stored(compare.results, OLD, (1.0, 1.0, 1.0))
    other = builders.copy_case(nbytes=8192)
    lost, odd = (builders.copy_case(nbytes=size) for size in (16384, 32768))
    old = [builders.record(lost, n, 1.0) for n in range(10)]
    old += [builders.failed(other, "gone"), builders.record(odd, 0, 1.0)]
    run = builders.run(old, run_id="20261121T000000Z-a-1", commit=OLD, launches=10)
    archive.write(compare.results, run)
    new = [builders.failed(CASES[0], "it\x1b broke"), builders.skipped(CASES[1])]
    new += [builders.record(case, n, 2.0) for case in (other, odd) for n in range(10)]
    new += [builders.record(CASES[2], n, 2.0, version="2") for n in range(10)]
    on_day(compare.results, 22, new)
    exit_code, rows = compare.rows(OLD, NEW)
    assert exit_code == EXIT_FAILED
    about = itemgetter("verdict", "before_s", "after_s", "why", "series")
    near = pytest.approx(1.0, abs=0.01)
    assert [about(row) for row in rows] == [
        ("failed", near, None, "it\x1b broke", f"{CASES[0]}@shelf"),
        ("skipped", near, None, "needs a GPU", f"{CASES[1]}@shelf"),
        ("not measured", 1.0, None, "", f"{lost}@shelf"),
        ("other version", near, None, "1 there, 2 here", f"{CASES[2]}@shelf"),
        ("new", None, 2.0, "ok before: 1 launch, under 7", f"{odd}@shelf"),
        ("new", None, 2.0, "failed before: gone", f"{other}@shelf"),
    ]
    assert compare(NEW, OLD) == EXIT_FAILED  # `other` had a number
    on_day(compare.results, 23, [builders.record(CASES[0], n, 1.0) for n in range(10)])
    assert compare.rows(OLD, NEW)[0] == EXIT_NOTHING_MEASURED  # the newest run counts


def test_what_failed_before_too_is_no_failure_of_the_newest_run(compare: Shell) -> None:
    """Of a level and of a commit: the last run before counts."""
    level(compare.results, (1.0,) * 4)
    broken = [builders.failed(CASES[0], "broke")]
    broken += [builders.record(CASES[1], n, 1.0) for n in range(10)]
    for day, commit, exit_code, why in (
        (22, NEW, EXIT_FAILED, "broke"),
        (23, "c" * 40, EXIT_OK, "failed before, too: broke"),
    ):
        on_day(compare.results, day, broken, commit=commit)
        assert compare(commit) == exit_code and why in compare.out and "+0" not in compare.out
    assert compare(NEW, "c" * 40) == EXIT_OK and "before, too" in compare.out


# ---- which runs ---------------------------------------------------------------------------------


def test_one_side_alone_is_held_against_the_runs_before_it(compare: Shell) -> None:
    """Also the older of two that has too few runs of its own; whichever is named first. What left
    that level before is not called."""
    for day in range(8):
        at = f"2026-11-{day + 1:02d}T00:00:00Z"
        seconds = (1.0, 1.0, 1.2 if day > 5 else 1.0) if day < 7 else (1.0, 1.5, 1.2)
        stored(compare.results, f"{day}" * 40, seconds, committed_at=at)
    assert compare("7777777", "--all") == EXIT_REGRESSION
    title = "the level of the runs before -> 7777777: 1 slower, 1 undecided, 1 same\n"
    assert compare.out.startswith(title) and "7+1 runs" in compare.out
    assert compare("6666666", "7777777") == EXIT_REGRESSION
    title = "6666666, with the runs before it -> 7777777: 1 slower, 1 undecided, 1 same\n"
    assert compare.out.startswith(title)
    assert compare("7777777", "6666666") == EXIT_OK
    assert "1+7 runs" in compare.out
    assert compare("machine:shelf") == EXIT_USAGE
    assert "has no runs before it: name a commit or a run, or two" in compare.err


def test_runs_and_machines_are_sides_too(compare: Shell) -> None:
    first = stored(compare.results, OLD, (1.0,), machine="left")
    second = stored(compare.results, OLD, (1.5,), machine="right", scratch="quick")
    sides = f"run:{first}", f"run:{second}"
    both = {"not measured", "new"}  # two machines are two series
    assert compare.verdicts(*sides) == (EXIT_NOTHING_MEASURED, both)
    compare(*sides)
    assert f"run:{second} (scratch: quick): 1 not measured" in compare.out
    stored(compare.results, OLD, (1.5,), machine="third")
    assert compare("machine:left", "machine:third") == EXIT_NOTHING_MEASURED
    assert "made one after the other; 4 more runs (not scratch) will decide" in compare.out
    assert "1 undecided: more runs (not scratch) will help" in compare.out
    level(compare.results, (1.5,), machine="third")
    assert compare("machine:left", "machine:third") == EXIT_REGRESSION
    assert f"{SHOWN[0]}\n" in compare.out
    assert compare("machine:left", "machine:right") == EXIT_NOTHING_MEASURED
    assert "'machine:right' has no run that may be judged" in compare.err


def test_machines_are_compared_at_the_commits_that_both_measured(compare: Shell) -> None:
    """The right one came with slower commits; at those that both measured nothing differs, and one
    case was not measured there."""
    for number in range(12):
        machine, seconds = ("left", 1.0) if number < 6 else ("right", 1.5)
        stored(compare.results, f"{number:040x}", (seconds, seconds), machine=machine)
    sides = "machine:left", "machine:right"
    assert compare.verdicts(*sides) == (EXIT_REGRESSION, {"slower"})
    compare(*sides)
    assert "other commits and dates" in compare.out
    for number in range(6):
        stored(compare.results, f"{number:040x}", (1.0,), machine="right")
    exit_code, rows = compare.rows(*sides)
    assert exit_code == EXIT_OK
    verdicts = {row["series"]: row["verdict"] for row in rows}
    assert verdicts == {str(CASES[0]): "same", str(CASES[1]): "not measured"}
    compare(*sides)
    assert "other commits" not in compare.out
    for number in range(40):
        stored(compare.results, f"{20 + number // 2:040x}", (2.0,), machine=sides[number % 2][8:])
    _, rows = compare.rows(*sides)
    newest = next(row for row in rows if row["series"] == str(CASES[0]))
    assert newest["before_s"] > 1.9 and newest["num_first"] == newest["num_second"] == 20


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of two machines, and one that is scratch."""
    results = tmp_path_factory.mktemp("few")
    for machine, commit in (("left", OLD), ("right", OLD), ("left", NEW)):
        stored(results, commit, (1.0,), machine=machine)
    stored(results, "c" * 40, (1.0,), scratch="quick")
    return results


@pytest.mark.parametrize(
    ("sides", "exit_code", "message"),
    [
        ("colour:red", EXIT_USAGE, "cannot read 'colour:red'"),
        ("no-such-branch", EXIT_USAGE, "no commit 'no-such-branch' here"),
        (f"{OLD} machine:left", EXIT_USAGE, "cannot be compared: name two commits or runs, or two"),
        (f"{OLD} {OLD[:8]}", EXIT_USAGE, "share 2 runs: name sides that share none"),
        (f"{OLD} run:20261121", EXIT_USAGE, "names 4 of run_id: write more of it"),
        ("machine:lft machine:left", EXIT_NOTHING_MEASURED, "(did you mean 'left'?): measure it"),
        (
            f"{OLD} {'c' * 40}",
            EXIT_NOTHING_MEASURED,
            "may be judged: measure it, or name another, as aaaa",
        ),
        (f"{OLD} {NEW} --machine lft", EXIT_NOTHING_MEASURED, "(did you mean 'left'?)"),
    ],
)
def test_a_side_that_is_none_is_one_line(
    few: Path, sides: str, exit_code: int, message: str
) -> None:
    compare = Shell(few)
    assert compare(*sides.split()) == exit_code
    assert message in compare.err and compare.err.count("\n") == 1


# ---- another project's --------------------------------------------------------------------------


def test_an_environment_is_compared_with_itself_alone(
    compare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One side has both environments, the other one of them."""
    monkeypatch.setattr(asv_project, "NUM_BENCHMARKS", 149)
    first, _ = asv_project.write(compare.results, [OLD, NEW], ["box"])
    older = first.read_text().replace("virtualenv-py3.11", "virtualenv-py3.7")
    first.with_name(f"{OLD[:8]}-virtualenv-py3.7.json").write_text(older)
    exit_code, rows = compare.rows(OLD, NEW)
    assert exit_code == EXIT_NOTHING_MEASURED
    name = "suite_8.Bench148.time_it[]@box/virtualenv-py3"
    verdicts = {row["series"]: row["verdict"] for row in rows}
    assert verdicts[f"{name}.11"] == "undecided" and verdicts[f"{name}.7"] == "not measured"


def test_another_projects_tree_has_a_level_too(
    compare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 % in one benchmark after 20 runs whose noise is 2 %."""
    monkeypatch.setattr(asv_project, "NUM_BENCHMARKS", 10)
    commits = [f"{number:08x}" + "0" * 32 for number in range(21)]
    *_, newest = asv_project.write(compare.results, commits, ["box"])
    data = json.loads(newest.read_text())
    slower = data["results"]["suite_3.Bench3.time_it"]
    slower[0] = [1.3 * seconds for seconds in slower[0]]
    newest.write_text(json.dumps(data))
    for sides in ((commits[20],), (commits[19], commits[20])):
        exit_code, rows = compare.rows(*sides)
        called = {row["series"] for row in rows if row["verdict"] == "slower"}
        assert exit_code == EXIT_REGRESSION and len(called) == 6
        assert all(name.startswith("suite_3.Bench3.time_it[") for name in called)
    assert compare("HEAD") == EXIT_NOTHING_MEASURED
    assert "has no run that may be judged: measure it" in compare.err
    exit_code, rows = compare.rows(commits[1], commits[2])
    assert exit_code == EXIT_NOTHING_MEASURED
    why = "made one after the other; 3 more runs (not scratch) or both interleaved will decide"
    assert {row["why"] for row in rows if row["verdict"] == "undecided"} == {why}
    compare(commits[1], commits[2])
    assert "undecided: `asv continuous --interleave-rounds` or more runs" in compare.out


# ---- what else differs --------------------------------------------------------------------------


def test_what_else_the_runs_differ_in_is_a_note(compare: Shell) -> None:
    def nights_of(commit: str, seconds: float, torch: str, driver: str, num: int = 6) -> None:
        facts = {"software": {"torch": torch}, "nvml": {"driver": driver}}
        for _ in range(num):
            stored(compare.results, commit, (seconds,), facts=facts)

    note = "the sides differ in more than what is compared"
    nights_of(OLD, 1.0, "2.12", "580")
    nights_of(NEW, 1.5, "2.13\u202e", "590")
    assert compare(OLD, NEW) == EXIT_REGRESSION
    facts = "torch 2.12 there, 2.13  here; driver 580 there, 590 here"
    assert f"{note} ({facts}), and all of it counts\n" in compare.out
    nights_of(NEW, 1.5, "2.12", "580", 1)  # the versions overlap
    assert compare(OLD, NEW) == EXIT_REGRESSION and note not in compare.out


# ---- the comment on a pull request --------------------------------------------------------------

ABOUT = ("A: main (1a2b3c4d): 2026-11-20 faster copies", "B: 5e6f7a8b: 2026-11-21 slower copies")
HOSTILE = (
    "a`b <img src=x onerror=alert(1)> | x \\| y || [click](http://evil.example) @everyone\n\n"
    "# head\n| - | <!-- hostbench: ab --> www.evil.example **b** \u202e ~~~\n```\n#12 &lt;"
)


def one(verdict: Any, effect: float | None, **more: Any) -> Comparison:
    after = None if effect is None else 1 + effect
    return Comparison(verdict=verdict, effect=effect, num=(7, 7), before=1.0, after=after, **more)


def commented(
    comparisons: Sequence[Comparison],
    notes: Sequence[str] = (),
    about: Sequence[str] = ABOUT,
    case: str = "",
) -> str:
    keys: list[Key] = [("shelf", case or f"{CASES[0]}{n}", "1") for n in range(len(comparisons))]
    series = in_order(dict(zip(keys, comparisons, strict=True)))
    return comment_of(Compared(names=("A", "B"), comparisons=series, notes=notes), about)


SLOWER, SAME = one("slower", 0.1), one("same", 0.0)
FAILED = one("failed", None, why="no bytes")


@pytest.mark.parametrize(
    ("comparisons", "line"),
    [
        ([SLOWER, one("slower", 0.3), SAME], "Slower: 2 slower, 1 same"),
        ([one("faster", -0.2), SAME], "Faster: 1 faster, 1 same"),
        ([SAME, one("undecided", 0.03)], "Undecided: 1 undecided, 1 same"),
        ([SAME, FAILED, SLOWER], "Failed: 1 failed, 1 slower, 1 same"),
        ([], "Nothing measured: no series has numbers on both sides"),
    ],
)
def test_the_first_line_of_a_comment_is_the_answer(
    comparisons: list[Comparison], line: str
) -> None:
    text = commented(comparisons, ["2 cases left out, not in main"])
    assert text.splitlines()[:2] == [MARKER, f"## {line}"]
    html, num = rendered(text), sum(one.verdict != "same" for one in comparisons)
    assert html.count("<tr>") == (1 + num if num else 0)
    assert "- `2 cases left out, not in main`" in text
    assert text.endswith("".join(f"- `{line}`\n" for line in ABOUT))


def test_a_long_comment_is_cut_short() -> None:
    text = commented([SLOWER, one("failed", None, why=HOSTILE * 100)] * 250, [HOSTILE * 100] * 9)
    assert "not listed: 200 failed, 250 slower" in text
    assert len(text) < 60_000


def rendered(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_no_text_from_elsewhere_is_markup() -> None:
    about = (HOSTILE,) * 4
    odd = [one("failed", None, why=HOSTILE)]
    for case in (f"transfer.x[{HOSTILE}]", HOSTILE, "\\", "\\\\|\\|"):
        for text in (
            commented(odd, [HOSTILE, "\\", "`"], about, case),
            comment("Failed", [HOSTILE, *about]),
        ):
            html = rendered(text)
            assert text.count("\n<!--") == 0 and text.startswith(MARKER)
            for tag in ("<img", "<a ", "<h1", "<strong>b", "<del", "<pre", "\u202e"):
                assert tag not in html, tag
            table = html.partition("<tbody>")[2].partition("</tbody>")[0]
            assert table.count("<td") in (0, 8)
            prose = [part.partition("<code>")[0] for part in html.split("</code>")]
            assert not any("evil" in part or "@every" in part for part in prose)


@pytest.mark.parametrize("text", ["ab `x`;$(id) '``' main", "``a"])
def test_code_is_what_was_typed(text: str) -> None:
    """A branch may be called so: another quote in its place would end that of the shell."""
    assert f"<code>{escape(text, quote=False)}</code>" in rendered(code(text))
