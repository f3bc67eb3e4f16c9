"""Golden files: what is printed of cases made by hand, as tests/data/NAME.txt holds it.

`GOLDEN=write .venv/bin/python -m pytest TEST` writes the file of a test anew. Its lines are what
people read: `git diff tests/data` has to be read before a change is committed.
"""

import os
from collections.abc import Iterable
from pathlib import Path

DATA = Path(__file__).parent / "data"
HEAD = "# Written by `GOLDEN=write .venv/bin/python -m pytest {test}`: read what a change says."


def check(name: str, lines: Iterable[str]) -> None:
    """Whether these are the lines of tests/data/NAME.txt, below a head of `# ` and how it is
    written."""
    path, test = DATA / f"{name}.txt", os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
    printed = [line for text in lines for line in text.split("\n")]
    stored = path.read_text().splitlines() if path.exists() else [HEAD.format(test=test)]
    head = [line for line in stored if line.startswith("# Written by ")]
    if os.environ.get("GOLDEN") == "write":
        path.write_text("".join(f"{line}\n" for line in (*head, *printed)))
        return
    assert printed == stored[len(head) :], (
        f"tests/data/{name}.txt has another text. If it is meant to change, run `GOLDEN=write "
        f".venv/bin/python -m pytest {test}` and read what has changed"
    )
