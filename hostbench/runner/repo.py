"""What git says about the code that is measured."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import hostbench


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The commit under the measurement, or why there is none."""

    commit: str | None
    committed_at: str | None
    scratch: str | None
    """Why numbers measured here belong to no commit; None when they belong to `commit`."""


def checkout(root: Path | None, results: Path) -> Checkout:
    """The state of the git repository at `root`, tracked files below `results` left aside."""
    if root is None:
        return Checkout(commit=None, committed_at=None, scratch="no asv.conf.json: not a checkout")
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return Checkout(commit=None, committed_at=None, scratch="no git repository")
    committed_at = _git(root, "show", "-s", "--format=%cI", commit)
    return Checkout(commit=commit, committed_at=committed_at, scratch=_scratch(root, results))


def _scratch(root: Path, results: Path) -> str | None:
    if not Path(hostbench.__file__).resolve().is_relative_to(root.resolve()):
        return "hostbench is not imported from this checkout"
    paths = ["--", "."]
    if results.resolve().is_relative_to(root.resolve()):
        paths.append(f":(exclude){results.resolve().relative_to(root.resolve())}")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", *paths)
    return "uncommitted changes" if changed else None


def _git(root: Path, *args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *args], cwd=root, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
