"""The report of a check of the GPU, as Markdown and as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostbench.gpu_check.record import Result
from hostbench.gpu_check.runner import log_tail

_WITH_LOG = ("tests", "run")


def write(folder: Path, started_at: str, results: Sequence[Result], complete: bool) -> None:
    """Write DIR/report.json and DIR/report.md; half a report is better than none."""
    data: dict[str, Any] = {
        "started_at": started_at,
        "complete": complete,
        "machine": results[0].answer.data,
        "results": [result.as_json() for result in results],
    }
    _replace(folder / "report.json", json.dumps(data, indent=1) + "\n")
    _replace(folder / "report.md", markdown(folder, started_at, results, complete))


def markdown(folder: Path, started_at: str, results: Sequence[Result], complete: bool) -> str:
    lines = [
        "# GPU check",
        "",
        f"{results[0].answer.text}",
        "",
        f"Started {started_at}{'' if complete else '; not finished'}.",
        "",
        "| check | status | seconds |",
        "|---|---|---|",
        *(f"| {one.name} | {one.answer.status} | {one.seconds:.0f} |" for one in results),
    ]
    for result in results[1:]:
        lines += ["", f"## {result.name}: {result.answer.status}", "", result.question, ""]
        lines.append(result.answer.text)
        if result.answer.status == "failed" or result.name in _WITH_LOG:
            lines += ["", "~~~", log_tail(folder, result.name), "~~~"]
    return "\n".join(lines) + "\n"


def _replace(place: Path, text: str) -> None:
    draft = place.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(place)
