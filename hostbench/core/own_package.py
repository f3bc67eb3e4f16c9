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


@dataclass(frozen=True, kw_only=True)
class OwnPackage(MetaPathFinder):
    """A copy of the project's package: in sys.meta_path it finds its names in its folder alone."""

    folder: str
    """Where its modules lie."""
    names: tuple[str, ...]
    """The modules and packages that are imported from there or not at all."""

    def encoded(self) -> str:
        return json.dumps(asdict(self))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(fullname == name or fullname.startswith(f"{name}.") for name in self.names):
            return None
        if fullname in self.names:
            path = [str(Path(self.folder, *fullname.split(".")[:-1]))]
        spec = PathFinder.find_spec(fullname, path)
        if spec is None:
            message = f"No module named {fullname!r} in the code that is measured"
            raise ModuleNotFoundError(message, name=fullname)
        return spec


def declared(environ: Mapping[str, str]) -> OwnPackage | None:
    """The copy that an environment names."""
    named = json.loads(environ.get(VARIABLE) or "null")
    return named and OwnPackage(folder=named["folder"], names=tuple(named["names"]))


def import_from(package: OwnPackage) -> None:
    """From now on this process imports the project's package from there. What else lies there comes
    after Python's own modules: one that is called like one of those takes no one's place."""
    sites = (n for n, entry in enumerate(sys.path) if entry.endswith("-packages"))
    if package.folder not in sys.path:
        sys.path.insert(max(sites, default=len(sys.path)), package.folder)
    others = [finder for finder in sys.meta_path if not isinstance(finder, OwnPackage)]
    sys.meta_path[:] = [package, *others]
