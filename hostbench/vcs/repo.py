"""What git says about the code that is measured."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hostbench.core.clock import epoch_s, is_storable
from hostbench.core.errors import HostbenchError
from hostbench.core.units import one_line
from hostbench.core.user_project import another_installed

MOST_LANDED = 100
_OF_A_HOOK = {
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
}
_HASH = re.compile("[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The commit under the measurement, or why there is none."""

    commit: str | None = None
    committed_at: str | None = None
    scratch: str | None = None
    """Why numbers measured here belong to no commit; None when they belong to `commit`."""


class GitError(HostbenchError):
    """git is missing or refuses; the text is its first line."""


def git(
    root: Path,
    *command: str,
    names: Sequence[str] = (),
    paths: Sequence[str] = (),
    given: str = "",
    environ: Mapping[str, str] | None = None,
    is_shown: bool = False,
) -> str:
    """What a git command prints there, in no language but English. Raises GitError. No other
    function of the package runs git.

    What a person or a file called a commit goes into `names`, where nothing is an option. `given`:
    its standard input; `environ`: variables of its own; `is_shown`: it prints as it goes.
    """
    for name in names:
        if name.startswith("-"):  # `git bisect` knows no --end-of-options
            raise GitError(f"{name!r} is an option, not the name of a commit")
    pipe = None if is_shown else subprocess.PIPE
    # what git tells its hooks would have another repository changed than the one that is asked
    outside = {k: v for k, v in os.environ.items() if k not in _OF_A_HOOK}
    try:
        process = subprocess.Popen(
            ["git", *command, *names, *(["--", *paths] if paths else [])],  # noqa: S607 - any git
            cwd=root,
            # without a terminal it asks nobody for a password
            env={**outside, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise GitError(f"git is not installed, or cannot run here ({why})") from error
    with process:
        try:
            out, err = process.communicate(given)
        except BaseException:  # what it has started ends with it
            with contextlib.suppress(ProcessLookupError):  # it may have come to its end
                os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode:
        first = ((err or "").strip().splitlines() or [f"git {command[0]} failed"])[0]
        if "dubious ownership" in first:
            first = "another user owns this repository: `git config --global --add safe.directory "
            first += "PATH`"
        raise GitError("no git repository" if "not a git repository" in first else first)
    return (out or "").strip()


def checkout(root: Path | None, results: Path, sources: Mapping[str, Path]) -> Checkout:
    """The state of the checkout at `root`, where what is measured is in its commit: the families,
    whose files `sources` names, and the package, of which no other copy is installed."""
    if root is None:
        return Checkout(scratch="no asv.conf.json")
    tree = working_tree(root, results)
    for family, path in sources.items() if tree.commit else ():
        try:
            git(root, "ls-files", "--error-unmatch", paths=[str(path.resolve())])
        except GitError:
            return Checkout(scratch=f"the file of {family} is not in the commit")
    if tree.commit and tree.scratch is None:
        return replace(tree, scratch=another_installed(root))
    return tree


def working_tree(root: Path, results: Path) -> Checkout:
    """The state of the git repository at `root`, tracked files below `results` left aside."""
    try:
        commit, paths = git(root, "rev-parse", "HEAD"), [":/", *left_aside(root, results)]
        changed = git(root, "status", "--porcelain", "--untracked-files=no", paths=paths)
        return Checkout(
            commit=commit,
            committed_at=committed_at(root, commit),
            scratch="uncommitted changes" if changed else None,
        )
    except GitError as error:
        why = "no commits yet" if "ambiguous argument 'HEAD'" in str(error) else str(error)
        return Checkout(scratch=why)


def committed_at(root: Path, commit: str | None) -> str | None:
    """When a commit was made, ISO 8601; None where git tells none that can be kept."""
    try:
        at = git(root, "show", "-s", "--format=%cI", names=[commit]) if commit else None
        return at if at and is_storable(epoch_s(at)) else None
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
        log = ("log", f"--max-count={MOST_LANDED}", "--format=%H%x09%s")
        lines = git(root, *log, names=[f"{old}..{new}"]).splitlines()
    except GitError:
        return None
    return [(commit, subject) for commit, _, subject in (line.partition("\t") for line in lines)]


def known_commits(root: Path, commits: Iterable[str]) -> set[str]:
    """Those, by their 40 or 64 digits, that git has here."""
    hashes = [commit for commit in commits if _HASH.fullmatch(commit)]
    try:
        lines = git(root, "cat-file", "--batch-check", given="\n".join(hashes)).splitlines()
    except GitError:
        return set()
    return {line.split()[0] for line in lines if " commit " in line}


def about(root: Path, commit: str) -> str:
    """`2026-11-21 the commit's first line`, fit for a terminal."""
    return one_line(git(root, "show", "-s", "--format=%cs %s", names=[commit]))


@functools.cache  # `ab` would start git a dozen times for it
def top_level(root: Path) -> Path:
    """The folder of the repository that `root` lies in, an absolute path. Raises GitError."""
    return Path(git(root, "rev-parse", "--show-toplevel"))


def check_out(root: Path, commit: str | None, folder: Path) -> None:
    """All files of a commit in a clone of its own, as asv has them; without one those of HEAD, with
    all that the working tree has now but for what git ignores: as `git add --all` takes it, into
    the clone's index and objects. Raises GitError."""
    top = top_level(root)
    clone = ("clone", "--quiet", "--shared", "--no-checkout", "--template=")
    git(root, *clone, paths=[str(top), str(folder)])
    if commit is not None:
        git(folder, "checkout", "--quiet", "--detach", names=[commit])
        return
    paths = git(top, "rev-parse", "--git-path", "index", "--git-path", "objects").splitlines()
    index, objects = (top / path for path in paths)
    if index.exists():
        shutil.copyfile(index, folder / ".git" / "index")
    environ = {
        "GIT_INDEX_FILE": str(folder / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(folder / ".git" / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
    }
    git(top, "add", "--all", environ=environ)
    git(folder, "checkout-index", "--quiet", "--all")


def differ(root: Path, old: str | None, new: str | None, paths: Sequence[str]) -> bool:
    """Whether files there differ between two commits; without `new` between `old` (HEAD without
    one) and the working tree, where files count that git does not track and does not ignore. Raises
    GitError."""
    names = [old or "HEAD", *([new] if new else [])]
    if git(root, "diff", "--name-only", names=names, paths=paths):
        return True
    others = ("ls-files", "--others", "--exclude-standard")
    return new is None and bool(git(root, *others, paths=paths))


def left_aside(root: Path, *folders: Path) -> list[str]:
    """As git takes it: what lies below these is left aside, where they lie in the repository."""
    paths = (inside(root, folder) for folder in folders)
    return [f":(top,exclude){path}" for path in paths if path is not None]


def inside(root: Path, folder: Path) -> Path | None:
    """A folder from the top of the repository on that `root` lies in; None outside of it. Raises
    GitError."""
    folder, top = folder.resolve(), top_level(root).resolve()
    return folder.relative_to(top) if folder.is_relative_to(top) else None
