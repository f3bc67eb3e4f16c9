"""Walking a results folder: what is damaged, doubled or left over, and what to do about it.

Nothing is changed. Each finding names its path, says what is wrong and how to mend it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostbench.core.errors import DataError
from hostbench.core.records import Run
from hostbench.core.units import number_of
from hostbench.limits import published
from hostbench.runner import journal
from hostbench.store import archive, check_asv, frame, nights, peers, triage
from hostbench.store.asv_tree import Tell, untold
from hostbench.store.check_asv import FROM_GIT, Damage, as_damage
from hostbench.store.runs import put_together
from hostbench.store.table.scan import is_utf8

NEXT_ONE = "the next `hostbench run` or `hostbench ab`"
_TOP = ("benchmarks.json",)
_TOP_SUFFIXES = (".md", ".txt", ".toml")
_HIDDEN = (".index", ".journals", ".gitignore", ".gitattributes", ".gitkeep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found, and how much was looked at."""

    findings: list[Damage]
    num_files: int
    num_runs: int
    num_waiting: int
    """Journals of whole runs, as every plain `asv run` leaves: no damage."""


def check(results: Path, tell: Tell = untold) -> Checked:
    """Read everything below a results folder."""
    findings: list[Damage] = []
    archived, files = _archives(results, findings, tell)
    stored = check_asv.check(results, findings, tell)
    findings += _missing_rows(results, archived, stored)
    findings += _runs(results, archived)
    left, num_waiting = _journals(results, archived)
    findings += left
    findings += _peers(results)
    findings += _published(results)
    findings += _nights(results)
    said = triage.read(results).warnings
    findings += dict.fromkeys(as_damage(path, text, "mend it") for path, text in said)
    findings += _unknown(results)
    findings.sort(key=lambda one: one.path)
    num_files = len(files) + stored.num_files
    return Checked(
        findings=findings, num_files=num_files, num_runs=len(archived), num_waiting=num_waiting
    )


def _archives(
    results: Path, findings: list[Damage], tell: Tell
) -> tuple[list[tuple[Path, Run]], list[Path]]:
    """The archives that can be read; the others, and those out of place, are findings."""
    files = sorted(results.glob(f"*/runs/*{archive.SUFFIX}"))
    found: list[tuple[Path, Run]] = []
    by_id: dict[str, Path] = {}
    for path in files:
        tell(path)
        try:
            run = archive.read(path)
        except DataError as error:
            findings.append(as_damage(path, str(error), FROM_GIT))
            continue
        name, machine = run.header.run_id, path.parent.parent.name
        if path.name != f"{name}{archive.SUFFIX}":
            right = path.with_name(f"{name}{archive.SUFFIX}")
            remedy = f"rename it to {right.name}, or delete it if that is there"
            findings.append(Damage(path, f"it holds the run {name}", remedy))
        if run.header.machine != machine:
            said = f"it holds a run of machine {run.header.machine}, not of {machine}"
            findings.append(Damage(path, said, "move it to that machine's folder"))
        if name in by_id:
            findings.append(Damage(path, f"the same run as {by_id[name]}", "delete one of the two"))
        by_id.setdefault(name, path)
        found.append((path, run))
    return found, files


def _missing_rows(
    results: Path, archived: list[tuple[Path, Run]], stored: check_asv.Stored
) -> Iterator[Damage]:
    """Archives that say that asv holds their points, where asv holds none of that commit."""
    for path, run in archived:
        header = run.header
        names = {str(row[0]) for row in run.asv_rows if row}
        there = stored.benchmarks.get((str(header.machine), str(header.commit)), set())
        missing = sorted(names - there)
        if missing:
            shown = ", ".join(missing[:3]) + (" ..." if len(missing) > 3 else "")
            yield Damage(
                path,
                f"asv's file of commit {str(header.commit)[:8]} lacks {len(missing)} of its "
                f"{len(names)} benchmarks ({shown})",
                f"restore {results / str(header.machine)}/{str(header.commit)[:8]}-*.json from "
                "git; the run itself is whole",
            )


def _runs(results: Path, archived: list[tuple[Path, Run]]) -> Iterator[Damage]:
    """Archives of the right shape that cannot be shown, and parts whose first part is gone."""
    there = {run.header.run_id for _, run in archived}
    paths = {run.header.run_id: path for path, run in archived}
    for whole in put_together(run for _, run in archived):
        said: list[str] = []
        frame.rows_of_run(results, whole, (), said.append)
        for text in said:
            yield as_damage(paths[whole.header.run_id], text, FROM_GIT)
    for path, run in archived:
        first = path.with_name(f"{run.header.resumes}{archive.SUFFIX}")
        if run.header.resumes and run.header.resumes not in there and not first.exists():
            yield Damage(
                path,
                f"it resumes the run {run.header.resumes}, which is not there",
                f"{FROM_GIT}; until then it is shown as a run of its own",
            )


def _journals(results: Path, archived: list[tuple[Path, Run]]) -> tuple[list[Damage], int]:
    """What is to look at, and how many journals only wait to be archived."""
    there = {run.header.run_id: path for path, run in archived}
    found: list[Damage] = []
    waiting = 0
    for path in journal.find(results):
        try:
            if journal.is_alive(path):
                continue
            held = journal.read(path)
        except DataError as error:
            found.append(as_damage(path, str(error), "move it away"))
            continue
        except FileNotFoundError:
            continue  # archived while we looked
        if held.header.run_id in there:
            said = f"the run is archived already, as {there[held.header.run_id]}"
            found.append(Damage(path, said, "delete it"))
            continue
        if held.is_complete and held.records and not held.damaged:
            waiting += 1
            continue
        broken = f", {number_of(len(held.damaged), 'damaged line')}" if held.damaged else ""
        held_in = f"{number_of(len(held.records), 'case')}{broken}"
        said = f"an orphaned journal: {held_in}, and nobody writes it"
        found.append(Damage(path, said, _fate(held)))
    return found, waiting


def _fate(orphan: Run) -> str:
    """What becomes of it: hostbench.store.adopt archives it, hostbench.cli.run_setup resumes it."""
    by = orphan.header.by
    if not orphan.records:
        return f"{NEXT_ONE} deletes it"
    if orphan.is_complete:
        return f"{NEXT_ONE} archives it"
    if by == "hostbench run":
        return f"{NEXT_ONE} archives it, and `hostbench run --resume` finishes it"
    return f"{NEXT_ONE} archives it as far as it got; nothing finishes a run of `{by}`"


def _peers(results: Path) -> Iterator[Damage]:
    for path in sorted(results.glob(f"*/peers/*{peers.SUFFIX}")):
        said: list[str] = []
        peers.rows_of(path, said.append)
        for text in said:
            yield as_damage(path, text, FROM_GIT)


def _published(results: Path) -> Iterator[Damage]:
    said: list[str] = []
    published.load(results, said.append)
    for text in said:
        yield as_damage(results / published.FILE, text, "docs/results.md has an example")


def _nights(results: Path) -> Iterator[Damage]:
    """What nights concluded, where it cannot be read."""
    for path in sorted(results.glob(f"*/{nights.FOLDER}/*{nights.SUFFIX}")):
        try:
            nights.read(path)
        except DataError as error:
            yield as_damage(path, str(error), "restore it from git, or delete it")


def _unknown(results: Path) -> Iterator[Damage]:
    """Files that neither asv nor hostbench writes."""
    for path in sorted(results.rglob("*")):
        parts = path.relative_to(results).parts
        if not is_utf8(path.name):
            yield Damage(path, "its name is no UTF-8, so it is left out", "rename it")
        if not path.is_file():
            continue
        if parts[0] in _HIDDEN or _is_known(parts):
            continue
        remedy = "delete it, or keep it elsewhere"
        said = "neither asv nor hostbench writes such a file"
        if path.name.endswith(".tmp"):
            said = "left over from a write that was killed"
            remedy = "delete it"
        yield Damage(path, said, remedy)


def _is_known(parts: tuple[str, ...]) -> bool:
    name = parts[-1]
    if len(parts) == 1:
        return name in _TOP or (name.endswith(_TOP_SUFFIXES) and not name.startswith("."))
    if parts[0] == triage.FOLDER and name.endswith(triage.SUFFIX):
        return len(parts) == 2
    if len(parts) == 2:
        return name.endswith(".json") and not name.startswith(".")
    endings = {
        "runs": archive.SUFFIX,
        "peers": peers.SUFFIX,
        nights.FOLDER: nights.SUFFIX,
    }
    known = endings.get(parts[1], "\0")
    return len(parts) == 3 and name.endswith(known) and not name.startswith(".")


def as_json(checked: Checked) -> dict[str, Any]:
    findings = [{"path": str(f.path), "what": f.what, "remedy": f.remedy} for f in checked.findings]
    return {
        "files": checked.num_files,
        "runs": checked.num_runs,
        "waiting": checked.num_waiting,
        "findings": findings,
    }
