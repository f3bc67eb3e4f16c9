"""docs/commands.md: what all commands share."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_FOR_PEOPLE = {"HOSTBENCH_COMPLETE"}
"""click's, with an underscore before it: the section about completion has it."""


def test_every_environment_variable_is_explained() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    sources = [path for name in ("hostbench", "dashboard") for path in (ROOT / name).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"HOSTBENCH_[A-Z_]+", path.read_text())}
    explained = set(re.findall(r"HOSTBENCH_[A-Z_]+", page))
    assert read - NOT_FOR_PEOPLE == explained - NOT_FOR_PEOPLE
