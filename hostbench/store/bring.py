"""Bringing in another results tree: what is new is copied, nothing that is there is written over.

The tree is any project's: asv's files, and archives and peers' figures where hostbench made them.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hostbench.core.errors import DataError, UsageError, Warn
from hostbench.core.files import read_stored, unpack, write_atomic
from hostbench.store import archive, asv_tree, compact, nights, peers
from hostbench.store.table import asv_points
from hostbench.store.table.scan import is_utf8

_HARDWARE = ("gpu", "num_gpu", "cpu", "num_cpu", "ram", "arch")
"""Keys of machine.json that make two machines two; `os` is brought up to date now and then."""


_OF_COMMIT = re.compile("[0-9a-f]{8}-")
"""How a file of asv's begins that holds results."""


@dataclass(slots=True)
class Brought:
    """What became of the files of one machine, by path in the tree that they came from."""

    machine: str
    new: list[Path] = field(default_factory=list)
    there: list[Path] = field(default_factory=list)
    """The same content was there already; of an archive, also before or after `compact`."""
    other: list[Path] = field(default_factory=list)
    """Other content was there under the same name: ours was kept."""
    refused: list[str] = field(default_factory=list)
    """Why each file that stays behind cannot be read."""


def is_tree(path: Path) -> bool:
    """Whether a folder holds results of machines."""
    return path.is_dir() and bool(_machines(path))


def bring(results: Path, tree: Path, machine: str | None = None) -> Iterator[Brought]:
    """Copy every machine of a tree; `machine` files the tree's only one under another name.

    Raises UsageError before anything is copied where a machine of that name is other hardware.
    """
    names = _machines(tree)
    if machine is not None and len(names) != 1:
        raise UsageError(
            f"--machine {machine!r} names one machine, {tree} holds {len(names)} "
            f"({', '.join(names[:5])}): import them without it"
        )
    if tree.resolve() == results.resolve():
        raise UsageError(f"{tree} is the results folder itself: name another tree")
    pairs = [(name, machine or name) for name in names]
    for source, target in pairs:
        refuse_other_hardware(tree / source, results / target, target)
    wrong: list[str] = []
    described = asv_tree.described(tree, wrong.append)
    for source, target in pairs:
        if is_utf8(target):
            yield _machine(results, tree, source, target, described, wrong)
            wrong = []  # told with the first machine
        else:
            why = f"{tree / source} has a name that is no UTF-8; left behind: rename it"
            yield Brought(machine=ascii(target)[1:-1], refused=[why])
    shared = tree / "benchmarks.json"
    if not (results / shared.name).exists() and described:
        write_atomic(results / shared.name, read_stored(shared))  # asv shows nothing without


def _machines(tree: Path) -> list[str]:
    """Folders that hold files with the names of results; in /tmp others have .json files too."""
    found = {path.parent.name for path in tree.glob("*/*.json") if _OF_COMMIT.match(path.name)}
    for below in (f"runs/*{archive.SUFFIX}", f"peers/*{peers.SUFFIX}"):
        found |= {path.parent.parent.name for path in tree.glob(f"*/{below}")}
    return sorted(name for name in found if not name.startswith("."))


def refuse_other_hardware(source: Path, target: Path, name: str) -> None:
    """Raises UsageError where two folders of a machine of that name say that they are two."""
    theirs, ours = (_entry(folder) for folder in (source, target))
    both = [key for key in _HARDWARE if theirs.get(key) and ours.get(key)]
    differing = [key for key in both if str(theirs[key]) != str(ours[key])]
    if differing:
        key = differing[0]
        raise UsageError(
            f"machine {name!r} is other hardware here: {key} is {ours[key]!r}, in {source} it is "
            f"{theirs[key]!r}; name theirs otherwise with --machine NAME"
        )


def _entry(folder: Path, warn: Warn = asv_tree.quiet) -> dict[str, Any]:
    """machine.json; empty where it is missing."""
    path = folder / "machine.json"
    data = asv_tree.load(path, warn) if path.exists() else {}
    return data if isinstance(data, dict) else {}


def _machine(
    results: Path,
    tree: Path,
    source: str,
    target: str,
    shared: Mapping[str, Any],
    wrong: Sequence[str],
) -> Brought:
    """`shared`: the tree's benchmarks.json; `wrong`: what of the tree cannot be read."""
    done = Brought(machine=target, refused=[*wrong])
    described = {**shared, **asv_tree.described(tree, done.refused.append, source)}
    folder, place = tree / source, results / target
    renamed = target if target != source else None
    held: set[str] = set()
    for path in asv_tree.result_files(folder):
        data = _asv_data(path, described, done)
        if data is not None:
            held.update(data["results"])
            _copy(path, place / path.name, done, partial(_renamed_asv, machine=renamed))
    for path in sorted((folder / "runs").glob(f"*{archive.SUFFIX}")):
        if _is_archive(path, done):
            content = partial(_renamed_archive, machine=renamed)
            _copy(path, place / "runs" / path.name, done, content, _is_same_archive)
    for path in sorted((folder / nights.FOLDER).glob(f"*{nights.SUFFIX}")):
        _copy(path, place / nights.FOLDER / path.name, done, read_stored)
    for path in sorted((folder / "peers").glob(f"*{peers.SUFFIX}")):
        said: list[str] = []
        peers.rows_of(path, said.append)
        done.refused += said
        if not said:
            _copy(path, place / "peers" / path.name, done, read_stored)
    if held:
        _describe(results, target, {name: described[name] for name in held if name in described})
    entry = {**_entry(folder, done.refused.append), "machine": target, "version": 1}
    if (done.new or done.there) and not (place / "machine.json").exists():
        write_atomic(place / "machine.json", json.dumps(entry, indent=4).encode() + b"\n")
    return done


def _asv_data(path: Path, described: Mapping[str, Any], done: Brought) -> dict[str, Any] | None:
    said: list[str] = []
    data = asv_tree.load(path, said.append)
    if data is not None:
        asv_points.read(path, data, described, [], said.append)
    said = [text for text in said if not text.endswith(asv_tree.CORRECT)]
    done.refused += said
    return None if said or not isinstance(data, dict) else data


def _is_archive(path: Path, done: Brought) -> bool:
    try:
        archive.read(path)
    except DataError as error:
        done.refused.append(str(error))
        return False
    return True


def _is_same_archive(target: Path, theirs: bytes) -> bool:
    """Here or there, it may have been compacted since."""
    try:
        return compact.is_same(target, read_stored(target), theirs)
    except DataError:  # check-results tells what is wrong with ours
        return False


def _copy(
    path: Path,
    target: Path,
    done: Brought,
    content: Callable[[Path], bytes],
    is_same: Callable[[Path, bytes], bool] = lambda target, theirs: False,
) -> None:
    data = content(path)
    if not target.exists():
        write_atomic(target, data)
        shutil.copystat(path, target)
        done.new.append(path)
    elif read_stored(target) == data or is_same(target, data):
        done.there.append(path)
    else:
        done.other.append(path)


def _renamed_asv(path: Path, machine: str | None) -> bytes:
    raw = read_stored(path)
    if machine is None:
        return raw
    data = json.loads(raw)
    if isinstance(data.get("params"), dict):
        data["params"]["machine"] = machine
    return json.dumps(data, separators=(",", ":")).encode()


def _renamed_archive(path: Path, machine: str | None) -> bytes:
    raw = read_stored(path)
    if machine is None:
        return raw
    data = json.loads(unpack(raw))
    data["hostbench"]["header"]["machine"] = machine
    if isinstance(data.get("params"), dict):
        data["params"]["machine"] = machine
    return archive.packed(data)


def _describe(results: Path, machine: str, wanted: dict[str, Any]) -> None:
    """Keep the names of another project's parameters beside its files, where ours lack them."""
    shared = asv_tree.described(results, asv_tree.quiet)
    own = asv_tree.described(results, asv_tree.quiet, machine)
    known = {**shared, **own}
    new = {name: about for name, about in wanted.items() if not _same(known.get(name), about)}
    new = {name: about for name, about in new.items() if name not in own}
    if new:
        path = results / machine / "benchmarks.json"
        whole = {**own, **new, "version": 2}
        write_atomic(path, json.dumps(whole, indent=4, sort_keys=True).encode() + b"\n")


def _same(first: Any, second: Any) -> bool:
    keys = ("param_names", "unit")
    dicts = isinstance(first, dict) and isinstance(second, dict)
    return dicts and all(first.get(key) == second.get(key) for key in keys)
