"""A run as a page: text, Markdown, JSON. What is in a result file is data, never markup."""

import json
import re
from pathlib import Path
from typing import Any

from hostbench.core.case import Case
from hostbench.core.records import Finish, Run
from hostbench.report.page import as_json, page
from hostbench.report.write import write
from hostbench.store import archive
from tests.fakes.builders import (
    GPU_FACTS,
    copy_case,
    create_case,
    failed,
    record,
    run,
    skipped,
)
from tests.stored import read_tree

HOSTILE = (
    "<script>alert(1)</script> | [x](http://y) ~~gone~~ `a` *b* _c_ # \\ &lt;\r\n\x1b[31mred\u202e"
)
FINE, SURPRISE = copy_case(), copy_case(blocking=False)
SKIPPED, FAILED = copy_case(memory="pinned"), create_case(fill="randn")


def mixed(reason: str = "needs a GPU", **changes: Any) -> Run:
    records = [
        record(FINE, 0, 0.5, call_s=0.25),
        record(FINE, 1, 1.5, call_s=0.75),
        record(
            SURPRISE,
            0,
            0.5,
            expected={"asynchronous": True},
            measurement={"call_s": [0.5], "findings": {"asynchronous": False}},
        ),
        skipped(SKIPPED, reason),
        failed(FAILED, f"proof failed: {reason}", seconds=2.0),
        failed(create_case(), "no number at all"),
    ]
    late = create_case(fill="empty")
    planned = (*dict.fromkeys(str(r.case) for r in records), str(late))
    return run(records, planned=planned, **changes)


def made(folder: Path, one: Run, form: str = "text") -> str:
    archive.write(folder, one)
    tree = read_tree(folder)
    return write(page(tree.frame, tree.runs[0]), form)


def typed(case: object) -> str:
    """As the page writes it, sizes with their unit."""
    return (
        str(case).replace("nbytes=1048576", "nbytes=1MiB").replace("nbytes=65536", "nbytes=64KiB")
    )


def line_of(text: str, case: object) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(typed(case))]
    return line


def test_the_page_says_what_the_run_is(tmp_path: Path) -> None:
    text = made(tmp_path, mixed(scratch="quick", facts=GPU_FACTS))
    first, second, third, *_ = text.splitlines()
    what = "shelf (NVIDIA H200), device cpu (no GPU: this says nothing about CUDA)"
    assert first == f"{what}, 2026-11-21T12:00Z"
    assert second == (
        "commit 1a2b3c4d, torch 2.13.0+cpu, driver 580.1, 2 launches, partial, "
        "run 20261121T120000Z-1a2b3c4d-0001"
    )
    assert third.startswith("scratch (quick)")


def test_the_table_keeps_the_statuses_apart(tmp_path: Path) -> None:
    text = made(tmp_path, mixed())
    assert re.search(r"\s1 s\s+0\.00105 GB/s\s+0\.50\s+50\.0%$", line_of(text, FINE))
    assert "unexpected: asynchronous is False; 1 of 2 launches" in line_of(text, SURPRISE)
    assert re.search(r"0\.00\s+-\s+unexpected", line_of(text, SURPRISE))  # 1 launch: no spread
    assert typed(SKIPPED) not in text and "skipped in 1 case: needs a GPU\n" in text
    assert re.search(r"~~2 s~~\s+-\s+.*failed: needs a GPU$", line_of(text, FAILED))
    assert re.search(r"-\s+-\s+-\s+-\s+failed: no number", line_of(text, create_case()))
    assert "not measured in 1 case: the run ended" in text
    assert "2 ok, 1 skipped, 2 failed, 1 not measured, 1 with an unexpected finding.\n" in text


def test_nothing_that_follows_from_a_failed_time_stands(tmp_path: Path) -> None:
    stale = [
        failed(FINE, "proof failed: stale", launch, seconds=0.5 + launch) for launch in range(2)
    ]
    text = made(tmp_path, run(stale))
    assert re.search(r"~~1 s~~\s+-\s+-\s+-\s+proof failed: stale$", line_of(text, FINE))
    assert "proof failed: the time is crossed out" in text


def test_only_a_failed_proof_crosses_a_time_out(tmp_path: Path) -> None:
    """Of a case that hung in its second launch the first one's time is no time of the case."""
    hung = "rank 0 did not answer"
    text = made(tmp_path, run([record(FINE), failed(FINE, hung, launch=1)]))
    assert re.search(rf"\s-\s+-\s+-\s+-\s+failed: {hung}$", line_of(text, FINE))
    assert "~~" not in text and "crossed out" not in text


def test_what_a_rate_counts_has_a_line_of_its_own(tmp_path: Path) -> None:
    sums = Case.of("collectives.all_reduce", {"device": "cpu", "num_ranks": 2, "nbytes": 1 << 20})
    lines = made(tmp_path, run([record(sums, nbytes=1 << 20), record(FINE)])).splitlines()
    first = lines.index("rate: bytes per step / time; 1 GB/s is 10^9 bytes a second")
    assert lines[first + 1].startswith("rate of all_reduce counts one rank's buffer (algorithm")
    assert lines[first + 2].startswith("async: ")


def test_markdown_is_a_page_of_its_own(tmp_path: Path) -> None:
    text = made(tmp_path, mixed(), "md")
    lines = text.splitlines()
    assert lines[0].startswith("## shelf (A Toy CPU)")
    assert "### transfer" in lines and "### allocation" in lines
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + 4
    assert "| ~~2 s~~ |" in text
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows)


def test_json_is_strict_and_whole(tmp_path: Path) -> None:
    archive.write(tmp_path, mixed(HOSTILE))
    tree = read_tree(tmp_path)
    data = as_json(tree.frame, tree.runs[0])
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again["run_id"] == "20261121T120000Z-1a2b3c4d-0001"
    assert (again["machine"], again["scratch"]) == ("shelf", None)
    assert {answer["family"] for answer in again["answers"]} == {"transfer", "allocation"}
    cases = {case["case"]: case for case in again["cases"]}
    assert len(cases) == 6
    assert cases[str(FINE)]["seconds"] == 1.0
    assert cases[str(FINE)]["blocking"] is True
    assert cases[str(SKIPPED)]["reason"] == HOSTILE
    assert "seconds" not in cases[str(SKIPPED)]
    assert cases[str(FAILED)]["seconds"] == 2.0
    assert {case for case, row in cases.items() if row["valid"]} == {str(FINE), str(SURPRISE)}


def test_a_proof_that_cannot_be_made_is_told_once(tmp_path: Path) -> None:
    why = f"unavailable: no counters {HOSTILE}"
    proven = {"call_s": [0.5], "proofs": {"data": "passed", "link_bytes": why}}
    records = [
        record(copy_case(nbytes=1 << power), 0, 0.5, measurement=proven) for power in (10, 11, 12)
    ]
    text = made(tmp_path, run(records, launches=1))
    (line,) = [line for line in text.splitlines() if line.startswith("Not proven")]
    assert line.startswith("Not proven in 3 cases: link_bytes unavailable: no counters <script>")
    tree = read_tree(tmp_path)
    shown = write(page(tree.frame, tree.runs[0]), "html")
    assert shown.count("Not proven in 3 cases: link_bytes") == 1 and "<script>" not in shown


def test_a_partial_run_says_so_in_every_form(tmp_path: Path) -> None:
    """It was stopped after the first of ten launches, and had come to one of two cases."""
    came, never = copy_case(nbytes=1 << 10), copy_case(nbytes=1 << 20)
    stopped = Finish(at="2026-11-21T12:05:00.000Z", status="interrupted")
    part = run([record(came)], launches=10, planned=(str(came), str(never)), finish=stopped)
    assert "1 of 10 launches, partial, run" in made(tmp_path, part)
    tree = read_tree(tmp_path)
    (whole,) = tree.runs
    for form in ("html", "md"):
        assert "1 of 10 launches, partial" in write(page(tree.frame, whole), form)
    found = as_json(tree.frame, whole)
    assert (found["launches"], found["measured_launches"], found["partial"]) == (10, 1, True)
    unseen = [one["reason"] for one in found["cases"] if one["status"] == "not measured"]
    assert unseen == ["the run ended before it came to this case"]
    ended = run([record(came, n) for n in range(10)], launches=10)
    assert "10 launches, run" in made(tmp_path / "whole", ended)
