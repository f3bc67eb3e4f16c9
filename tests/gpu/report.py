"""What `make gpu-check` writes of a run of these tests. A plugin: `pytest -p tests.gpu.report`.

Each outcome is a line of JSON in HOSTBENCH_GPU_REPORT/outcomes.jsonl as soon as it is known, so
that a run that hangs or dies leaves what it had. The report is there to be sent: it holds no name
of the machine or its user, no serial number and no UUID.
"""

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # check.py says when it is not installed
    import pytest

FOLDER = "HOSTBENCH_GPU_REPORT"
LINES = "outcomes.jsonl"
ROOT = Path(__file__).parent.parent.parent
_MARKS = {"passed": "", "skipped": " (skipped)", "failed": " (FAILED)"}

Outcome = dict[str, Any]
"""`test`, `outcome` (passed, failed or skipped), `seconds`, `reason`, `figures` (text and data)."""


def pytest_runtest_logreport(report: "pytest.TestReport") -> None:
    """The call; a setup or a teardown only where it did not pass."""
    if report.when == "call" or not report.passed:
        reason = "" if report.passed else _reason(report)
        figures = [{"text": text, "data": data} for text, data in report.user_properties]
        note(report.nodeid, report.outcome, report.duration, reason, figures)


def pytest_collectreport(report: "pytest.CollectReport") -> None:
    """A file that cannot be imported, or that skips itself."""
    if not report.passed:
        note(report.nodeid, report.outcome, 0.0, _reason(report))


def note(
    test: str, outcome: str, seconds: float, reason: str = "", figures: Sequence[Any] = ()
) -> None:
    line: Outcome = {"test": test, "outcome": outcome, "seconds": round(seconds, 3)}
    line |= {"reason": without_names(reason), "figures": without_names(list(figures))}
    with (Path(os.environ[FOLDER]) / LINES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def without_names(value: Any) -> Any:
    """The same without this machine's name, this user's folders and any GPU's UUID in its texts."""
    if isinstance(value, dict):
        return {key: without_names(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_names(each) for each in value]
    if not isinstance(value, str):
        return value
    node, home = platform.node(), Path.home()
    text = value.replace(str(ROOT), ".")
    if home != Path("/"):
        text = text.replace(str(home), "~")
    for name in {node, node.partition(".")[0]} - {"", "localhost"}:
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "HOST", text)
    return re.sub(r"\b(GPU|MIG)-[0-9a-fA-F]{8}-[0-9a-fA-F-]+", r"\1-UUID", text)


def _reason(report: "pytest.TestReport | pytest.CollectReport") -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return report.longreprtext


def write(folder: Path, facts: Mapping[str, Any], seconds: float) -> list[Outcome]:
    """DIR/report.json and DIR/report.md of what was noted."""
    place = folder / LINES
    found = [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []
    data = {"facts": facts, "seconds": round(seconds, 1), "outcomes": found}
    (folder / "report.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(markdown(facts, found, seconds), encoding="utf-8")
    return found


def markdown(facts: Mapping[str, Any], found: Sequence[Outcome], seconds: float) -> str:
    lines = ["# GPU check", "", f"{in_words(found)} in {seconds:.0f} s.", "", "## Outcomes", ""]
    for outcome in found:
        name = outcome["test"].removeprefix("tests/gpu/")
        lines.append(f"- `{name}`{_MARKS[outcome['outcome']]}, {outcome['seconds']:.1f} s")
        if outcome["outcome"] == "skipped":
            lines.append(f"  {outcome['reason']}")
        for figure in outcome["figures"]:
            lines += ["", *(f"  {line}" for line in figure["text"].splitlines()), ""]
        if outcome["outcome"] == "failed":
            lines += ["", "~~~", outcome["reason"], "~~~", ""]
    lines += ["", "## The machine", "", "| fact | value |", "|---|---|"]
    for group, members in facts.items():
        for name, value in members.items():
            shown = value if not isinstance(value, dict) else f"unknown ({value['why']})"
            if not str(name).startswith("env_") or not isinstance(value, dict):
                lines.append(f"| {group}.{name} | {str(shown).replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def in_words(found: Sequence[Outcome]) -> str:
    counts = Counter(outcome["outcome"] for outcome in found)
    return ", ".join(f"{num} {word}" for word, num in counts.items()) or "no test ran"
