"""The results branch: a branch of a remote that is a results folder, shared by many machines.

`fetch` brings what it has, `push` adds what it lacks. git's side of both is remote_branch.py.
"""

import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostbench.core.errors import BrokenError, DataError, UsageError
from hostbench.core.files import MAX_BYTES, read_stored, write_atomic
from hostbench.core.units import MIB
from hostbench.store import archive, bring, nights
from hostbench.store.union import merged, sharing
from hostbench.vcs.remote_branch import Blob, RemoteBranch, opened

ATTEMPTS = 8
"""Pushes, each after what another machine has pushed meanwhile was merged."""
PAUSE_S = 0.2
"""Up to so long before the second attempt, twice as long before each more."""
_OF_A_COMMIT = 256 * MIB
"""Bytes of files from which the rest is another commit: a commit is held in memory."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSync:
    """What `fetch` brought or `push` added."""

    commit: str | None
    """The branch's newest commit; None while there is no such branch."""
    files: tuple[str, ...] = ()
    """Paths in the results folder."""
    left: tuple[str, ...] = ()
    """Why others stayed where they are."""


def fetch(root: Path, results: Path, remote: str, branch: str) -> BranchSync:
    """Bring what the branch of a remote has, and `results` lacks, into `results`.

    Raises UsageError for a name that is wrong or a branch that is none of results, BrokenError
    where the remote does not answer or refuses.
    """
    with opened(root, results, remote, branch) as there:
        tip = there.fetch()
        if tip is None:
            return BranchSync(commit=None)
        left: list[str] = []
        stored = _shared(there, tip, left)
        files = _bring(there, results, stored, left)
        merged_in, is_level = _merge_in(there, results, stored, left)
        if is_level:
            there.note(tip)
        return BranchSync(commit=tip, files=tuple(sorted([*files, *merged_in])), left=tuple(left))


def push(root: Path, results: Path, remote: str, branch: str, message: str) -> BranchSync:
    """Commit what `results` has and the branch lacks; what others pushed meanwhile is merged.

    Raises as `fetch` does. `results` stays as it is, so that nothing is lost by a failure.
    """
    files: list[str] = []
    with opened(root, results, remote, branch) as there:
        attempt, why = 0, None
        while attempt < ATTEMPTS:
            tip = there.fetch()
            left: list[str] = []
            offer = _offer(there, results, tip, left)
            commit = there.commit(tip, offer.files, message) if offer.files else tip
            if offer.files and (why := there.send(str(commit))):
                attempt += 1
                time.sleep(random.uniform(0, PAUSE_S * 2 ** min(attempt, 5)))
                continue
            files += offer.files
            if commit and offer.is_level:
                there.note(commit)
            if offer.is_whole:
                return BranchSync(commit=commit, files=tuple(sorted(files)), left=tuple(left))
            attempt = 0
        raise BrokenError(
            f"{remote}/{branch} changed at each of {ATTEMPTS} attempts to push ({why}): nothing is "
            "lost, push again later"
        )


def _shared(there: RemoteBranch, commit: str, left: list[str]) -> dict[str, Blob]:
    """What of the commit is shared; the rest is told. Raises UsageError for foreign content."""
    every = there.tree(commit)
    shared = {name: one for name, one in every.items() if sharing(name)}
    others = [name for name in every if name not in shared and not _is_extra(name)]
    if others and not any("/" in name for name in shared):
        raise UsageError(
            f"{there.remote}/{there.branch} is no results branch: it has {_some(others)}; name a "
            "branch of its own, which need not be there yet"
        )
    odd = [name for name, one in shared.items() if not one.is_regular]
    large = [name for name, one in shared.items() if one.size > MAX_BYTES]
    for names, why in (
        (others, "are no results"),
        (odd, "are no regular files"),
        (large, f"are larger than {MAX_BYTES / MIB:g} MiB"),
    ):
        if names:
            left.append(f"{there.remote}/{there.branch}: these {why}, left out: {_some(names)}")
    return {name: one for name, one in shared.items() if name not in {*odd, *large}}


def _bring(
    there: RemoteBranch, results: Path, stored: Mapping[str, Blob], left: list[str]
) -> list[str]:
    """Copy the files that we lack, machine by machine, after they were read."""
    wanted = {name: one for name, one in stored.items() if not os.path.lexists(results / name)}
    files: list[str] = []
    machines = sorted({name.partition("/")[0] for name in wanted if _is_checked(name)})
    for machine in machines:
        # machine.json comes last: without it somebody was interrupted here
        lacking = stored if f"{machine}/machine.json" in wanted else wanted
        own = {
            name: one
            for name, one in stored.items()
            if name.startswith(f"{machine}/")
            and (name.endswith("/machine.json") or (name in lacking and _is_checked(name)))
        }
        with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
            tree = Path(folder)
            described = ("benchmarks.json", f"{machine}/benchmarks.json")
            shared = {name: stored[name] for name in described if name in stored}
            for name, content in there.contents({**own, **shared}):
                write_atomic(tree / name, content)
            files += _brought(results, tree, machine, left)
    others = {name: one for name, one in wanted.items() if not _is_checked(name)}
    for name, content in there.contents(others):
        write_atomic(results / name, content)
        files.append(name)
    return files


def _brought(results: Path, tree: Path, machine: str, left: list[str]) -> list[str]:
    files: list[str] = []
    try:
        bring.refuse_other_hardware(tree / machine, results / machine, machine)
        for done in bring.bring(results, tree):
            files += [path.relative_to(tree).as_posix() for path in done.new]
            left += [text.replace(f"{tree}{os.sep}", "") for text in done.refused]
    except UsageError as error:
        left.append(str(error).replace(f"{tree}{os.sep}", ""))
    return files


def _merge_in(
    there: RemoteBranch, results: Path, stored: Mapping[str, Blob], left: list[str]
) -> tuple[list[str], bool]:
    """What both sides have and may change; and whether what people edit is settled."""
    here = [name for name in stored if os.path.lexists(results / name)]
    files, is_level = [], True
    for name, theirs in there.contents(_differing(results, here, stored)):
        try:
            ours = read_stored(results / name, results)
            whole = merged(name, ours, theirs, there.base(name))
        except (DataError, OSError) as error:
            left.append(_why(name, error))
            is_level &= sharing(name) != "edited"
            continue
        if whole != ours:
            write_atomic(results / name, whole)
            files.append(name)
    return files, is_level


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """What one commit is to add."""

    files: Mapping[str, bytes]
    is_whole: bool
    """Nothing is left for another commit."""
    is_level: bool
    """No file that people edit is newer in the branch than here."""


def _offer(there: RemoteBranch, results: Path, tip: str | None, left: list[str]) -> _Offer:
    """What the branch lacks, and what comes of files that both have and may change."""
    stored = _shared(there, tip, left) if tip else {}
    refused = _other_hardware(there, results, stored, left)
    names = [name for name in _listed(results) if name.partition("/")[0] not in refused]
    both = _differing(results, names, stored)
    theirs = dict(there.contents(both))
    new: dict[str, bytes] = {}
    is_level, size = True, 0
    for name in (name for name in names if name in both or name not in stored):
        try:
            ours = content = read_stored(results / name, results)
            if name in both:
                content = merged(name, ours, theirs[name], there.base(name))
            elif name.endswith(archive.SUFFIX) and "/runs/" in name:
                archive.parse(results / name, content)
        except FileNotFoundError:  # it has just gone
            continue
        except (DataError, OSError) as error:
            left.append(_why(name, error))
            is_level &= sharing(name) != "edited"
            continue
        is_level &= sharing(name) != "edited" or content == ours
        if content != theirs.get(name):
            new[name] = content
            size += len(content)
        if size > _OF_A_COMMIT:
            return _Offer(files=new, is_whole=False, is_level=False)
    return _Offer(files=new, is_whole=True, is_level=is_level)


def _listed(results: Path) -> list[str]:
    """Every file that is shared, by its path in the folder."""
    found = (path for depth in ("*", "*/*", "*/*/*") for path in results.glob(depth))
    names = [path.relative_to(results).as_posix() for path in found if not path.is_dir()]
    return sorted(filter(sharing, names))


def _other_hardware(
    there: RemoteBranch, results: Path, stored: Mapping[str, Blob], left: list[str]
) -> set[str]:
    """Machines of ours whose name is another machine's in the branch."""
    entries = {
        name: one
        for name, one in stored.items()
        if sharing(name) == "first" and (results / name).is_file()
    }
    refused = set()
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        for name, content in there.contents(entries):
            machine = name.partition("/")[0]
            write_atomic(Path(folder) / name, content)
            try:
                bring.refuse_other_hardware(Path(folder) / machine, results / machine, machine)
            except UsageError as error:
                left.append(str(error).replace(folder, f"{there.remote}/{there.branch}"))
                refused.add(machine)
    return refused


def _differing(results: Path, names: Sequence[str], stored: Mapping[str, Blob]) -> dict[str, Blob]:
    """What both sides have, may change and have otherwise, or what of ours cannot be read."""
    found = {}
    for name in names:
        if name in stored and sharing(name) not in ("kept", "first"):
            try:
                is_same = stored[name].holds(read_stored(results / name, results))
            except OSError:
                is_same = False
            if not is_same:
                found[name] = stored[name]
    return found


def _is_checked(name: str) -> bool:
    """Whether `bring` reads it before it is copied: what is of a machine, but for its nights."""
    parts = name.split("/")
    if len(parts) == 3:
        return parts[1] != nights.FOLDER
    return len(parts) == 2 and sharing(name) in ("first", "rows", "described")


def _is_extra(name: str) -> bool:
    """What may lie beside results: a page that explains them, git's own settings."""
    return name.startswith(".git") or ("/" not in name and name.endswith((".md", ".txt")))


def _why(name: str, error: Exception) -> str:
    said = getattr(error, "strerror", None) or str(error)
    return said if name in said else f"{name} stays as it is: {said}"


def _some(names: Sequence[str]) -> str:
    """The first of them, fit for a terminal."""
    shown = ", ".join(ascii(name)[1:-1] for name in sorted(names)[:_SHOWN])
    rest = len(names) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
