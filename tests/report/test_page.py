"""A run as a page: text, Markdown, JSON, CSV and HTML. What is in a result file is data, never
markup."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from msgspec import to_builtins

from hostbench.core.case import Case
from hostbench.core.records import CaseRecord, Finish, Run
from hostbench.report.page import as_json, page
from hostbench.report.questions import answers, rows_of
from hostbench.report.write import text, write
from hostbench.store import archive
from tests import golden
from tests.fakes.builders import GPU_FACTS, copy_case, create_case, failed, record, run, skipped
from tests.stored import read_tree

HOSTILE = (
    "<script>alert(1)</script> | [x](http://y) ~~gone~~ `a` *b* _c_ # \\ &lt;\r\n\x1b[31mred\u202e"
)
FINE, SURPRISE = copy_case(), copy_case(blocking=False)
SKIPPED, FAILED = copy_case(memory="pinned"), create_case(fill="randn")


def mixed(reason: str = "needs a GPU", **changes: Any) -> Run:
    """A case of each status."""
    records = [
        record(FINE, 0, 0.5, call_s=0.25),
        record(FINE, 1, 1.5, call_s=0.75),
        record(
            SURPRISE,
            expected={"asynchronous": True},
            measurement={"call_s": [0.5], "device_s": [0.25], "findings": {"asynchronous": False}},
        ),
        skipped(SKIPPED, reason),
        failed(FAILED, f"proof failed: {reason}", seconds=2.0),
        failed(create_case(), "no number at all"),
    ]
    late = create_case(fill="empty")
    planned = (*dict.fromkeys(str(r.case) for r in records), str(late))
    return run(records, planned=planned, **changes)


def answered(reason: str) -> list[CaseRecord]:
    """Of eight launches: what questions have an answer for, and what not."""
    records = [
        record(copy_case(device="cuda", nbytes=1 << power, memory=memory), launch, seconds)
        for power in (10, 28)
        for memory, seconds in (("pageable", 0.5), ("pinned", 0.1))
        for launch in range(8)
    ]
    for memory in ("pageable", "pinned"):
        case = copy_case(device="cuda", nbytes=1 << 28, memory=memory, blocking=False)
        records.append(failed(case, reason, seconds=0.3))
    zeros, randn = (create_case(device="cuda", fill=fill) for fill in ("zeros", "randn"))
    return [*records, skipped(zeros, reason), skipped(randn, reason)]


def read(folder: Path, part: Run) -> tuple[pd.DataFrame, Run]:
    archive.write(folder, part)
    tree = read_tree(folder)
    return tree.frame, tree.runs[0]


def shown(folder: Path, part: Run, form: str = "text") -> str:
    return write(page(*read(folder, part)), form)


# ---- what is printed, as tests/data/page.txt has it ----


def pages(folder: Path) -> Iterator[str]:
    sums = Case("collectives.all_reduce", {"device": "cpu", "num_ranks": 2, "nbytes": 1 << 20})
    stale = [failed(FINE, "proof failed: stale", n, seconds=0.5 + n) for n in range(2)]
    hung = [record(FINE), failed(FINE, "rank 0 did not answer", launch=1)]
    for name, part in {
        "a case of each status": mixed(scratch="quick", facts=GPU_FACTS, device="cuda"),
        "nothing that follows from a failed time is shown": run(stale),
        "a time of its first launch is none of a case that hung in its second": run(hung),
        "what a rate counts": run([record(sums, nbytes=1 << 20), record(FINE)]),
        "ten launches": run([record(FINE, n) for n in range(10)], launches=10),
        "stopped after one launch, before its second case": STOPPED,
    }.items():
        yield f"==== {name}"
        yield shown(folder / name, part)
    for form in ("text", "md"):
        yield f"==== what is answered, and why not, {form}"
        yield shown(folder / form, run(answered("no CUDA"), device="cuda"), form)


STOPPED = run(
    [record(copy_case(nbytes=1 << 10))],
    launches=10,
    planned=tuple(str(copy_case(nbytes=1 << power)) for power in (10, 20)),
    finish=Finish(at="2026-11-21T12:05:00.000Z", status="interrupted"),
)


def test_what_is_printed(tmp_path: Path) -> None:
    golden.check("page", pages(tmp_path))


def test_a_partial_run_says_so_in_json(tmp_path: Path) -> None:
    data = as_json(*read(tmp_path, STOPPED))
    assert (data["launches"], data["measured_launches"], data["partial"]) == (10, 1, True)
    unseen = [case["reason"] for case in data["cases"] if case["status"] == "not measured"]
    assert unseen == ["the run ended before it came to this case"]


# ---- text from files, in each form ----


def test_a_proof_that_cannot_be_made_is_said_once(tmp_path: Path) -> None:
    proofs = {"data": "passed", "link_bytes": f"unavailable: no counters {HOSTILE}"}
    proven = {"call_s": [0.5], "proofs": proofs}
    part = run([record(copy_case(nbytes=1 << n), measurement=proven) for n in (10, 11, 12)])
    said = "Not proven in 3 cases: link_bytes unavailable: no counters"
    assert shown(tmp_path, part).count(f"{said} <script>") == 1
    document = shown(tmp_path, part, "html")
    assert document.count(said) == 1 and "<script>" not in document


# ---- plain values ----


def test_json_is_strict_and_whole(tmp_path: Path) -> None:
    frame, part = read(tmp_path, mixed(HOSTILE))
    data = json.loads(json.dumps(as_json(frame, part), allow_nan=False))
    assert data["run_id"] == "20261121T120000Z-1a2b3c4d-0001"
    assert (data["machine"], data["scratch"]) == ("shelf", None)
    cases = {case["case"]: case for case in data["cases"]}
    assert len(cases) == 6
    assert (cases[str(FINE)]["seconds"], cases[str(FINE)]["blocking"]) == (1.0, True)
    assert cases[str(SKIPPED)]["reason"] == HOSTILE and "seconds" not in cases[str(SKIPPED)]
    assert cases[str(FAILED)]["seconds"] == 2.0
    assert {case for case, row in cases.items() if row["valid"]} == {str(FINE), str(SURPRISE)}
    known = answers(rows_of(frame))
    assert {answer.family for answer in known} == {"transfer", "allocation"}
    for stored, answer in zip(data["answers"], known, strict=True):
        assert stored == {
            **{name: getattr(answer, name) for name in ("family", "question", "state", "verdict")},
            "figures": [
                to_builtins(own) | {"note": "; ".join(own.notes), "notes": [*own.notes]}
                for own in answer.figures
            ],
            "notes": [answer.at] if answer.at else [],
            "text": text(answer.blocks()),
        }
