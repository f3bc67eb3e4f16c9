"""What git says about the code that is measured."""

import io
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import hostbench
from hostbench.core.clock import epoch_s, is_storable
from hostbench.core.errors import HostbenchError
from hostbench.core.processes import kill_group
from hostbench.core.units import one_line

MOST_LANDED = 100
TIMEOUT_S = 60.0
_HASH = re.compile("[0-9a-f]{7,64}")
_CREDENTIALS = re.compile(r"://[^/@\s]*@")
"""What a URL may hold before its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The commit under the measurement, or why there is none."""

    commit: str | None
    committed_at: str | None
    scratch: str | None
    """Why numbers measured here belong to no commit; None when they belong to `commit`."""


class GitError(HostbenchError):
    """git is missing or refuses; the text is its first line, `said` all of it."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said or text


def git(root: Path, *command: str, names: Sequence[str] = (), paths: Sequence[str] = ()) -> str:
    """What a git command prints there, in no language but English. Raises GitError.

    What a person or a file called a commit goes into `names`, where nothing is an option.
    """
    return run_git(root, *command, names=names, paths=paths).decode(errors="replace").strip()


def run_git(
    root: Path,
    *command: str,
    names: Sequence[str] = (),
    paths: Sequence[str] = (),
    given: bytes = b"",
    environ: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """The same, as bytes, with standard input. No other function of the package runs git.

    git has no terminal: it asks nobody for a password. What it has started ends with it.
    """
    for name in names:
        if name.startswith("-"):  # `git archive` and `git bisect` know no --end-of-options
            raise GitError(f"{name!r} is an option, no name of a commit")
    line = ["git", *command, *names, *(["--", *paths] if paths else [])]
    everything = {**(os.environ if environ is None else environ), "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            line,
            cwd=root,
            env={**everything, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise GitError("git is not installed or does not answer") from error
    with process:
        try:
            out, err = process.communicate(given, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git {command[0]} did not end within {timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                kill_group(process.pid)
    if process.returncode:
        said = _CREDENTIALS.sub("://", err.decode(errors="replace")).strip()
        first = (said.splitlines() or ["git failed"])[0]
        raise GitError("no git repository" if "not a git repository" in first else first, said)
    return out


def is_ours(root: Path) -> bool:
    """Whether the folder is the checkout that hostbench is imported from."""
    return Path(hostbench.__file__).resolve().parent == root.resolve() / "hostbench"


def checkout(root: Path | None, results: Path, sources: Mapping[str, Sequence[Path]]) -> Checkout:
    """The state of the checkout at `root`, if what is measured is its code: hostbench itself, or
    nothing but families that are in its commit. `sources` are the files of each that is measured.
    """
    if root is None:
        return Checkout(commit=None, committed_at=None, scratch="outside a checkout of hostbench")
    found = working_tree(root, results)
    if found.commit is None or is_ours(root):
        return found
    for family, paths in sources.items():
        if not _tracked(root, paths):
            why = (
                "hostbench is not imported from this checkout, and the family "
                f"{family} is not in its commit"
            )
            return Checkout(commit=None, committed_at=None, scratch=why)
    return found


def _tracked(root: Path, paths: Sequence[Path]) -> bool:
    """Whether git has all the files; not where one lies outside the repository."""
    try:
        git(root, "ls-files", "--error-unmatch", paths=[str(path.resolve()) for path in paths])
    except GitError:
        return False
    return True


def working_tree(root: Path, results: Path) -> Checkout:
    """The state of the git repository at `root`, tracked files below `results` left aside."""
    try:
        commit = git(root, "rev-parse", "HEAD")
        return Checkout(
            commit=commit,
            committed_at=committed_at(root, commit),
            scratch="uncommitted changes" if _changed(root, results) else None,
        )
    except GitError as error:
        return Checkout(commit=None, committed_at=None, scratch=str(error))


def committed_at(root: Path, commit: str | None) -> str | None:
    """When a commit was made, ISO 8601; None where git tells none that can be kept."""
    try:
        said = git(root, "show", "-s", "--format=%cI", names=[commit]) if commit else None
        return said if said and is_storable(epoch_s(said)) else None
    except (GitError, ValueError):
        return None


def commit_of(root: Path, name: str) -> str | None:
    """The commit that a branch, tag or abbreviation names; None where git knows none."""
    try:
        return git(root, "rev-parse", "--verify", "--quiet", names=[f"{name}^{{commit}}"])
    except GitError:
        return None


def landed(root: Path, old: str, new: str) -> list[tuple[str, str]] | None:
    """(commit, subject) of what `new` holds and `old` does not, the newest first; None where git
    knows them not. At most MOST_LANDED."""
    if not all(_HASH.fullmatch(commit) for commit in (old, new)):
        return None
    try:
        said = git(
            *(root, "log", f"--max-count={MOST_LANDED}", "--format=%H%x09%s"),
            names=[f"{old}..{new}"],
        )
    except GitError:
        return None
    pairs = (line.partition("\t") for line in said.splitlines())
    return [(commit, subject) for commit, _, subject in pairs]


def is_shallow(root: Path) -> bool:
    """Whether commits were cut off when this clone was made."""
    return git(root, "rev-parse", "--is-shallow-repository") == "true"


def is_ancestor(root: Path, first: str, last: str) -> bool:
    return not git(root, "rev-list", "--max-count=1", names=[first, f"^{last}"])


def num_commits(root: Path, first: str, last: str, name: str) -> int:
    """Commits after `first` up to `last` that touch `name`."""
    return int(git(root, "rev-list", "--count", names=[f"{first}..{last}"], paths=[name]))


def about(root: Path, commit: str) -> str:
    """`2026-11-21 the commit's first line`, fit for a terminal."""
    return one_line(git(root, "show", "-s", "--format=%cs %s", names=[commit]))


def export(root: Path, commit: str, name: str, folder: Path) -> None:
    """Write what the folder `name` of a commit holds below `folder`. Raises GitError."""
    packed = run_git(root, "archive", "--format=zip", names=[commit], paths=[name])
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:  # tarfile needs Python 3.11.4 to be safe
        archive.extractall(folder)


def copy_tree(root: Path, name: str, folder: Path) -> None:
    """Copy the files below `name` as they are now, but for what git ignores. Raises GitError."""
    which = ("-z", "--cached", "--others", "--exclude-standard")
    listed = run_git(root, "ls-files", *which, paths=[name])
    for path in map(os.fsdecode, filter(None, listed.split(b"\0"))):
        if (root / path).is_file():  # else deleted, and not yet committed
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, folder / path)


def _changed(root: Path, results: Path) -> bool:
    paths = [":/"]
    if results.resolve().is_relative_to(root.resolve()):
        paths.append(f":(exclude){results.resolve().relative_to(root.resolve())}")
    return bool(git(root, "status", "--porcelain", "--untracked-files=no", paths=paths))
