"""The package of a user's project: one copy of it is imported, and no other.

An older copy may be installed in the same environment, and an editable install answers for every
module that a commit lacks. So its names are looked up in the folder of one copy alone. Imports
nothing of hostbench: `asv_guard` reads this file by itself.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

VARIABLE = "HOSTBENCH_PACKAGE"
"""Names the copy for the processes that are started: what `encoded` gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPackage:
    """A copy of the project's package."""

    folder: str
    """Where its modules lie."""
    names: tuple[str, ...]
    """The modules and packages that are imported from there or not at all."""

    def encoded(self) -> str:
        return json.dumps(asdict(self))


def declared(environ: Mapping[str, str]) -> OwnPackage | None:
    """The copy that an environment names."""
    declaration = json.loads(environ[VARIABLE]) if environ.get(VARIABLE) else None
    return declaration and OwnPackage(
        folder=declaration["folder"], names=tuple(declaration["names"])
    )


def import_from(package: OwnPackage) -> None:
    """From now on this process imports the project's package from there. What else lies there comes
    after Python's own modules: one that is called like one of those takes no one's place."""
    sites = (n for n, entry in enumerate(sys.path) if entry.endswith("-packages"))
    if package.folder not in sys.path:
        sys.path.insert(max(sites, default=len(sys.path)), package.folder)
    others = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    sys.meta_path[:] = [_Finder(package), *others]


class _Finder(MetaPathFinder):
    """Finds the names of a package, and what lies in them, in its folder alone."""

    def __init__(self, package: OwnPackage) -> None:
        self._names = frozenset(package.names)
        self._folder = package.folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parts = fullname.split(".")
        if self._names.isdisjoint(".".join(parts[:num]) for num in range(1, len(parts) + 1)):
            return None
        if fullname in self._names:
            path = [str(Path(self._folder, *parts[:-1]))]
        spec = PathFinder.find_spec(fullname, path)
        if spec is None:
            message = f"No module named {fullname!r} in the code that is measured"
            raise ModuleNotFoundError(message, name=fullname)
        return spec
