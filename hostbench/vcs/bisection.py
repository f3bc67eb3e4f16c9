"""git's own bisection, in a clone of its own: the user's checkout and index are left alone."""

import contextlib
import re
from pathlib import Path
from typing import Literal

from hostbench.core.errors import UsageError
from hostbench.vcs import own, repo
from hostbench.vcs.repo import GitError, git

_PACKAGE = "hostbench"
Word = Literal["good", "bad", "skip"]
_FIRST = re.compile(r"^# first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)


def touched(root: Path) -> tuple[str, ...]:
    """Only commits that touch these can change what is measured; as git takes paths."""
    return own.pathspecs(root) if own.is_own(root) else (_PACKAGE,)


def touched_in_words(root: Path) -> str:
    return "the project's code" if own.is_own(root) else f"{_PACKAGE}/"


def ends(root: Path, good: str, bad: str) -> tuple[str, str, int]:
    """(good, bad, how many commits between them touch what is measured). Raises UsageError for what
    cannot be bisected."""
    if repo.is_shallow(root):
        raise UsageError(
            "this clone is shallow, so commits between the ends may be missing: "
            "`git fetch --unshallow` first"
        )
    commits = [repo.commit_of(root, name) for name in (good, bad)]
    for name, commit in zip((good, bad), commits, strict=True):
        if commit is None:
            raise UsageError(f"git knows no commit {name!r} here; fetch it, or name another")
    first, last = map(str, commits)
    if not repo.is_ancestor(root, first, last):
        raise UsageError(
            f"{good} is no ancestor of {bad}, so no commit between them is the first bad one; name "
            "a good commit that the bad one is built on with --good"
        )
    return first, last, repo.num_commits(root, first, last, touched(root))


class Bisection:
    """Which commit to look at next, and what it comes to. `folder` must not exist."""

    def __init__(self, root: Path, folder: Path, good: str, bad: str) -> None:
        """Raises GitError."""
        self._clone = folder
        clone = ("clone", "--quiet", "--shared", "--no-checkout")
        git(root, *clone, paths=[str(root), str(folder)])
        git(folder, "bisect", "start", "--no-checkout", names=[bad, good], paths=touched(root))

    @property
    def first_bad(self) -> str | None:
        found = _FIRST.search(self._log())
        return found[1] if found else None

    @property
    def suspects(self) -> list[str]:
        """The commits that are left where all of them were skipped."""
        return _POSSIBLE.findall(self._log())

    @property
    def candidate(self) -> str | None:
        """The commit to look at; None at the end."""
        log = self._log()
        if _FIRST.search(log) or _POSSIBLE.search(log):
            return None
        return git(self._clone, "rev-parse", "BISECT_HEAD")

    def mark(self, word: Word) -> None:
        """What the candidate is."""
        with contextlib.suppress(GitError):  # exit code 2 where all is skipped
            git(self._clone, "bisect", word)

    def _log(self) -> str:
        return git(self._clone, "bisect", "log")
