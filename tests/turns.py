"""A repository of toy commits and workers that stand in for theirs, for `ab` and `bisect`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostbench.core.records import CaseRecord, Launch
from hostbench.families import load
from hostbench.vcs import measure, side
from tests.fakes.builders import InProcess, copy_case, record
from tests.scratch import git

CASE = copy_case(device="cuda", nbytes=65536, memory="pinned")
WORKS = load(("transfer",)).values()
VERSIONS = {str(case): work.version for work in WORKS for case in work.cases()}
JITTER = (0, 3, 1, 4, 2, 5, 7, 6, 9, 8)


def commit(root: Path, speed: str, message: str = "change") -> str:
    """A commit whose cases take so many seconds; `speed` may be another outcome's reason."""
    (root / "hostbench" / "speed").write_text(f"{speed} {message}")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)
    return git(root, "rev-parse", "HEAD")


class Toy(InProcess):
    """Reads what a launch comes to from the file `speed` of the code that it was given."""

    walked: list[tuple[str, int, tuple[Any, ...]]]

    def __init__(self, tick: Any, root: Path, _: Any) -> None:
        super().__init__()
        text = (root / "hostbench" / "speed").read_text()
        self.speed = text.split()[0].replace("HERE", str(root))

    def run(self, launch: Launch) -> Iterator[CaseRecord]:
        self.walked.append((self.speed, launch.number, launch.cases))
        number = self.speed.replace(".", "", 1).isdecimal()
        for case in launch.cases:
            far = 1 + 0.001 * JITTER[launch.number % len(JITTER)] + 0.0001 * len(self.walked)
            yield record(
                case,
                launch.number,
                float(self.speed) * far if number else None,
                version=VERSIONS[str(case)],
                status="ok" if number else "failed",
                reason=None if number else self.speed,
            )


@pytest.fixture
def root(stage: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit of 1 second, which is where the test is."""
    root = stage / "checkout"
    (root / "hostbench").mkdir(parents=True)
    (root / "hostbench" / "asv_env.py").touch()
    (root / "asv.conf.json").write_text("{}")
    (root / ".gitignore").write_text("results/\n")
    git(root, "init", "-q", "-b", "main")
    commit(root, "1", "start")
    monkeypatch.chdir(root)
    monkeypatch.setattr(measure, "Launcher", Toy)
    monkeypatch.setattr(side, "_declared", lambda *_: (VERSIONS, {}))
    monkeypatch.setattr(Toy, "walked", [], raising=False)
    return root
