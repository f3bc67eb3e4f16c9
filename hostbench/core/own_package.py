"""The package of a project of one's own: one copy of it is imported, and no other.

An older copy may be installed in the same environment, and an editable install answers for every
module that a commit lacks. So its names are looked up in the folders of one copy alone.
"""

import json
import os
import pkgutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

VARIABLE = "HOSTBENCH_PACKAGE"
"""Names the copy for the processes that are started: what `encoded` gives."""
_NEVER = {"hostbench", "setup", "conftest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPackage:
    """A copy of the project's package."""

    folders: tuple[str, ...]
    """Where its modules lie, in the order in which they are looked for."""
    names: tuple[str, ...]
    """The modules and packages that are imported from there or not at all."""

    def encoded(self) -> str:
        return json.dumps(asdict(self))


def declared(environ: Mapping[str, str]) -> OwnPackage | None:
    """The copy that an environment names."""
    found = json.loads(environ[VARIABLE]) if environ.get(VARIABLE) else None
    return found and OwnPackage(folders=tuple(found["folders"]), names=tuple(found["names"]))


def unbuilt(source: Path) -> Path:
    """What of a project that needs no building is put on the path: `src/` where modules lie in
    there, else all of it."""
    src = source / "src"
    return src if src.is_dir() and names_in([src]) else source


def names_in(folders: Iterable[Path], without: Collection[str] = ()) -> tuple[str, ...]:
    """The modules and packages of these folders that nothing else may answer for. A folder without
    `__init__.py` is none: several may share its name."""
    found = {module.name for module in pkgutil.iter_modules(map(str, folders))}
    return tuple(sorted(found - _NEVER - sys.stdlib_module_names - set(without)))


def import_from(package: OwnPackage) -> None:
    """From now on this process imports the project's package from there."""
    place = 1 + max((n for n, entry in enumerate(sys.path) if _is_stdlib(entry)), default=-1)
    sys.path[place:place] = [one for one in package.folders if one not in sys.path]
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Finder)]
    sys.meta_path.insert(0, _Finder(package))


def files_of(package: OwnPackage) -> dict[str, str]:
    """Name -> the file or folder that this process imports it from; a name that the copy lacks is
    left out."""
    finder = _Finder(package)
    found = {}
    for name in package.names:
        module = sys.modules.get(name)
        spec = module.__spec__ if module else finder.look(name, None)
        if spec is not None:
            found[name] = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
    return found


def strangers(package: OwnPackage, files: Mapping[str, str]) -> list[str]:
    """What of that does not come from the copy."""
    inside = [Path(one).resolve() for one in package.folders]
    return [
        path
        for name, path in files.items()
        if name in package.names and not any(map(Path(path).resolve().is_relative_to, inside))
    ]


class _Finder(MetaPathFinder):
    """Finds the names of a package in its folders alone."""

    def __init__(self, package: OwnPackage) -> None:
        self._names = frozenset(package.names)
        self._folders = list(package.folders)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self._names:
            return None
        found = self.look(fullname, path)
        if found is None:
            said = f"No module named {fullname!r} in the code that is measured"
            raise ModuleNotFoundError(said, name=fullname)
        return found

    def look(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, self._folders if path is None else path)


def _is_stdlib(entry: str) -> bool:
    """A module of the project's that is called like one of Python's own takes no one's place."""
    inside = Path(entry).is_relative_to(Path(os.__file__).parent)
    return inside and not entry.endswith("-packages")
