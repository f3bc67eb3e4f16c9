"""asv's own files, checked: whole, in place, once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostbench.core.files import REFUSALS, read_stored
from hostbench.store import asv_tree
from hostbench.store.archive import UPDATE
from hostbench.store.table import asv_points

FROM_GIT = "restore it from git or delete it"


@dataclass(frozen=True, slots=True)
class Damage:
    """Something wrong with one file."""

    path: Path
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; {self.remedy}"


@dataclass(slots=True)
class Stored:
    """What asv holds: (machine, commit) -> benchmarks."""

    benchmarks: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    num_files: int = 0


def check(results: Path, findings: list[Damage], tell: asv_tree.Tell = asv_tree.untold) -> Stored:
    """Look through benchmarks.json and every machine's folder."""
    stored = Stored()
    described = _described(results, findings)
    for folder in sorted({path.parent for path in results.glob("*/*.json")}):
        _machine(folder, findings)
        said: list[str] = []
        own = asv_tree.described(results, said.append, folder.name)
        findings += [as_damage(folder / "benchmarks.json", text, FROM_GIT) for text in said]
        known, layouts = {**described, **own}, list[asv_points.Layout]()
        seen: dict[tuple[str, str], Path] = {}
        for path in asv_tree.result_files(folder):
            stored.num_files += 1
            tell(path)
            data = _json(path, findings)
            if data is not None:
                said = []
                asv_points.read(path, data, known, layouts, said.append)
                findings += [as_damage(path, text, FROM_GIT) for text in said]
                _place(path, data, seen, stored, findings)
    return stored


def as_damage(path: Path, text: str, remedy: str) -> Damage:
    """A reader's warning without the path and the remedy that it has already."""
    text = text.removeprefix(f"{path}").removeprefix(":").lstrip()
    for own in ("; left out", f"; {FROM_GIT}", f"; {remedy}"):
        text = text.removesuffix(own)
    for own in (UPDATE, asv_tree.CORRECT):
        if text.endswith(f"; {own}"):
            text, remedy = text.removesuffix(f"; {own}"), own
    inside, end = text.removesuffix(")"), ")" * text.endswith(")")
    for own in REFUSALS:
        if inside.endswith(f": {own}"):
            text, remedy = inside.removesuffix(f": {own}") + end, own
    if has_markers(path):
        text, remedy = "a merge left its marks in it", "take one side: `git checkout --theirs FILE`"
    return Damage(path, text, remedy)


def has_markers(path: Path) -> bool:
    """Whether a merge left its marks in a text file."""
    try:
        text = read_stored(path)
    except OSError:
        return False
    return b"\n<<<<<<< " in b"\n" + text and b"\n>>>>>>> " in text


def _json(path: Path, findings: list[Damage], remedy: str = FROM_GIT) -> Any:
    said: list[str] = []
    data = asv_tree.load(path, said.append)
    findings += [as_damage(path, text, remedy) for text in said]
    return data


def _described(results: Path, findings: list[Damage]) -> Mapping[str, Any]:
    path = results / "benchmarks.json"
    remedy = "`asv run --bench just-discover` writes it anew"
    if not path.exists():
        if any(path.name not in asv_tree.NO_RESULTS for path in results.glob("*/*.json")):
            what = "missing: without it asv shows nothing, and parameters have no names"
            findings.append(Damage(path, what, remedy))
        return {}
    data = _json(path, findings, remedy)
    if data is not None and not isinstance(data, dict):
        findings.append(Damage(path, "it describes no benchmarks", remedy))
    return data if isinstance(data, dict) else {}


def _machine(folder: Path, findings: list[Damage]) -> None:
    path = folder / "machine.json"
    if not path.exists():
        what = "missing: asv leaves this machine's results out"
        findings.append(Damage(path, what, "restore it from git, or run asv there once more"))
        return
    data = _json(path, findings)
    if data is None:
        return
    if not isinstance(data, dict) or not isinstance(data.get("machine"), str):
        findings.append(Damage(path, "it names no machine", FROM_GIT))
    elif data["machine"] != folder.name:
        what = f"it names the machine {data['machine']}, its folder {folder.name}"
        findings.append(Damage(path, what, "rename the folder, or mend the name"))


def _place(
    path: Path,
    data: Any,
    seen: dict[tuple[str, str], Path],
    stored: Stored,
    findings: list[Damage],
) -> None:
    """Whether the name fits what the file holds, and no other file holds the same."""
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        return
    commit, env = str(data.get("commit_hash")), str(data.get("env_name"))
    stored.benchmarks.setdefault((path.parent.name, commit), set()).update(data["results"])
    if not path.name.startswith(f"{commit[:8]}-"):
        what = f"it holds commit {commit[:8]}, its name says {path.name[:8]}"
        findings.append(Damage(path, what, "asv overwrites by name: rename it"))
    other = seen.setdefault((commit, env), path)
    if other != path:
        what = f"commit {commit[:8]} and environment {env} are in {other.name} too"
        findings.append(Damage(path, what, "delete one of the two"))
