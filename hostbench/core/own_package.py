"""The package of a project of one's own: one copy of it is imported, and no other.

An older copy may be installed in the same environment, and an editable install answers for every
module that a commit lacks. So its names are looked up in the folders of one copy alone.
"""

import json
import os
import pkgutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    declaration = json.loads(environ[VARIABLE]) if environ.get(VARIABLE) else None
    return declaration and OwnPackage(
        folders=tuple(declaration["folders"]), names=tuple(declaration["names"])
    )


def unbuilt(source: Path, without: Collection[str] = ()) -> OwnPackage:
    """The package of a project that needs no building, as it is put on the path: `src/` where
    modules lie in there, else all of it, where a folder without `__init__.py` holds none."""
    src = source / "src"
    if names := names_in(src, without):
        return OwnPackage(folders=(str(src),), names=names)
    return OwnPackage(folders=(str(source),), names=_without(without, _modules(source)))


def names_in(folder: Path, without: Collection[str] = ()) -> tuple[str, ...]:
    """The modules and packages in there that nothing else may answer for. A folder that has no
    `__init__.py` may be one of several projects: then what lies in it, as in `company.product`."""
    return _without(without, _importable(folder))


def _without(names: Collection[str], names_there: Iterable[str]) -> tuple[str, ...]:
    aside = {*_NEVER, *sys.stdlib_module_names, *names}
    own = (name for name in names_there if not name.startswith("__editable__"))  # setuptools' own
    return tuple(sorted(name for name in own if name.partition(".")[0] not in aside))


def _modules(folder: Path) -> Iterator[str]:
    return (module.name for module in pkgutil.iter_modules([str(folder)]))


def _importable(folder: Path) -> Iterator[str]:
    yield from _modules(folder)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.isidentifier() and path.is_dir() and not path.is_symlink():
            if not (path / "__init__.py").exists():
                yield from (f"{path.name}.{name}" for name in _importable(path))


def installed(name: str) -> Path | None:
    """The folder or the file that a worker imports this from where no copy is named: it has neither
    the working directory on its path nor what PYTHONPATH names."""
    aside = {"", str(Path.cwd()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    parents = name.split(".")[:-1]
    path = [str(Path(entry, *parents)) for entry in sys.path if entry not in aside]
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path if finder is PathFinder else None)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            return origin.parent if spec.submodule_search_locations else origin
    return None


def import_from(package: OwnPackage) -> None:
    """From now on this process imports the project's package from there."""
    index = 1 + max((n for n, entry in enumerate(sys.path) if _is_stdlib(entry)), default=-1)
    sys.path[index:index] = [one for one in package.folders if one not in sys.path]
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Finder)]
    sys.meta_path.insert(0, _Finder(package))


def files_of(package: OwnPackage) -> dict[str, str]:
    """Name -> the file or folder that this process imports it from; a name that the copy lacks is
    left out."""
    finder = _Finder(package)
    files = {}
    for name in package.names:
        module = sys.modules.get(name)
        spec = module.__spec__ if module else finder.look(name, None)
        if spec is not None:
            files[name] = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
    return files


def strangers(package: OwnPackage, files: Mapping[str, str]) -> list[str]:
    """What of that does not come from the copy."""
    inside = [Path(folder).resolve() for folder in package.folders]
    return [
        path
        for name, path in files.items()
        if name in package.names and not any(map(Path(path).resolve().is_relative_to, inside))
    ]


class _Finder(MetaPathFinder):
    """Finds the names of a package, and what lies in them, in its folders alone."""

    def __init__(self, package: OwnPackage) -> None:
        self._names = frozenset(package.names)
        self._folders = package.folders

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parts = fullname.split(".")
        if self._names.isdisjoint(".".join(parts[:num]) for num in range(1, len(parts) + 1)):
            return None
        spec = self.look(fullname, path)
        if spec is None:
            message = f"No module named {fullname!r} in the code that is measured"
            raise ModuleNotFoundError(message, name=fullname)
        return spec

    def look(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        if fullname in self._names:
            path = [str(Path(folder, *fullname.split(".")[:-1])) for folder in self._folders]
        return PathFinder.find_spec(fullname, path)


def _is_stdlib(entry: str) -> bool:
    """A module of the project's that is called like one of Python's own takes no one's place."""
    inside = Path(entry).is_relative_to(Path(os.__file__).parent)
    return inside and not entry.endswith("-packages")
