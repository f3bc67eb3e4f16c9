"""The families, found by looking into folders: one question of the host/device paradigm each.

A family is a package with a module `workloads`, or one module. Nothing lists their names; one that
begins with `_` is a helper's. Besides this folder, the project at hand may have folders of its own:

    [tool.hostbench]
    workloads = ["bench/"]

in its pyproject.toml, and an installed package may name modules as entry points of the group
`hostbench.workloads`. They import the project's package from its files where nothing builds it
(`core.own_package`), or from the commit's copy that is measured.
"""

import importlib
import importlib.util
import os
import pkgutil
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from hostbench.core import asv_config, own_package
from hostbench.core.case import Selector
from hostbench.core.errors import UsageError, raised_at
from hostbench.core.files import read_stored
from hostbench.core.own_package import OwnPackage
from hostbench.core.suggest import did_you_mean, why_no_case
from hostbench.measure.workload import Workload, family_of, registry

FOLDERS = "HOSTBENCH_WORKLOADS"
"""Folders of workloads, separated as in PATH, in place of what pyproject.toml names."""
_OWN = "hostbench_workloads"
"""The package that modules of a project's folders are imported under."""


def names() -> tuple[str, ...]:
    """Every family, in the order that a reader meets them: by `ORDER` of its module (50 unless it
    says otherwise), then by name."""
    return tuple(_found())


def broken() -> dict[str, str]:
    """Family -> why it cannot be imported, and where."""
    return {name: why for name, why in _found().items() if isinstance(why, str)}


def load(families: tuple[str, ...] | None = None) -> dict[str, Workload]:
    """Import the families' workloads and return them by name, in declaration order; without names
    those of every family that can be imported.

    Raises UsageError for a family that is named and does not exist, or cannot be imported.
    """
    found = _found()
    for family in families or ():
        if family not in found:
            raise UsageError(_unknown(family, found))
        if family in broken():
            raise UsageError(broken()[family])
    wanted = tuple(_modules()) if families is None else families
    known = registry().values()
    return {work.name: work for family in wanted for work in known if work.family == family}


def _unknown(family: str, known: Collection[str]) -> str:
    said = f"unknown family {family!r}{did_you_mean(family, known)}; there are: {', '.join(known)}"
    if family.partition(".")[0] in known:
        return f"{family!r} is no family; --case {family!r} chooses a workload or a case"
    return said


def check_selects(selector: Selector, works: Mapping[str, Workload], where: str) -> None:
    """Raises UsageError for a selector that selects none of their cases; `where` it stands."""
    if not any(selector.selects(case) for work in works.values() for case in work.cases()):
        why = why_no_case(selector, {name: work.axes for name, work in works.items()})
        raise UsageError(
            f"{where}{selector.text!r} selects no case: {why}; `hostbench list --cases` names all"
        )


def declared(workload: str) -> Workload | None:
    """The workload of that name; None for another project's benchmark or one of another version."""
    _modules()
    return registry().get(workload)


def questions(family: str) -> tuple[Any, ...]:
    """What the family asks of its cases: `QUESTIONS` of its module `questions`, or of itself.
    Raises UsageError for what is no question."""
    found = getattr(_asking(family), "QUESTIONS", ())
    if not isinstance(found, tuple | list) or any(not hasattr(one, "workload") for one in found):
        raise UsageError(
            f"QUESTIONS of the family {family!r} is {found!r:.60}, no tuple of questions as in "
            "docs/your-own.md; mend it"
        )
    return tuple(found)


def words(family: str) -> dict[str, dict[Any, str]]:
    """Axis -> value -> how a reader calls it: `WORDS` beside the questions."""
    return dict(getattr(_asking(family), "WORDS", {}))


def _asking(family: str) -> ModuleType | None:
    module = _modules().get(family)
    if module and hasattr(module, "__path__"):
        name = f"{module.__name__}.questions"
        return _import(family, name) if importlib.util.find_spec(name) else module
    return module


def preloads() -> tuple[str, ...]:
    """What the families want to be imported once, before the launches are forked: `PRELOAD` beside
    their workloads."""
    named = [getattr(module, "PRELOAD", ()) for module in _modules().values()]
    one_each = ((names,) if isinstance(names, str) else names for names in named)
    return tuple(dict.fromkeys(chain.from_iterable(one_each)))


def of_project() -> tuple[str, ...]:
    """The families of the project at hand: in its own folders, or in its package, which brings them
    by entry points."""
    brought = {one.module for one in _brought()}
    return tuple(
        name
        for name, module in _modules().items()
        if module.__name__.startswith(f"{_OWN}.")
        or (module.__name__ in brought and _is_at_hand(Path(str(module.__file__))))
    )


def broken_of_project() -> dict[str, str]:
    """As `broken`, but for what other installed packages bring: that stops nobody here."""
    others = {
        family_of(one.module)
        for one in _brought()
        if not _is_at_hand(_source(one.module.partition(".")[0]))
    }
    return {name: why for name, why in broken().items() if name not in others}


def _is_at_hand(path: Path) -> bool:
    """Whether a file is the project's, and not of a package that is installed in its folder. A bare
    name is none that was found."""
    root = asv_config.project_root(_here())
    inside = (
        path.is_absolute() and root is not None and path.resolve().is_relative_to(root.resolve())
    )
    return inside and not any(part.endswith("-packages") for part in path.parts)


def files() -> list[Path]:
    """The source of every family that is not of this package."""
    found = [path for name in _modules() for path in sources(name)]
    return [path for path in found if not path.is_relative_to(__path__[0])]


def sources(family: str) -> list[Path]:
    """The files of a family that can be imported."""
    module = _modules()[family]
    path = Path(str(module.__file__))
    return sorted(path.parent.rglob("*.py")) if hasattr(module, "__path__") else [path]


def folders() -> tuple[Path, ...]:
    """The project's own folders of workloads. Raises UsageError for one that is not there."""
    named = os.environ.get(FOLDERS)
    if named is not None:
        found = tuple(Path(part) for part in named.split(os.pathsep) if part)
    else:
        found = configured(_here())
    for folder in found:
        if not folder.is_dir():
            raise UsageError(f"there is no folder of workloads {folder}; mend {FOLDERS} or "
                             "[tool.hostbench] workloads in pyproject.toml")  # fmt: skip
    return found


def _here() -> Path:
    """Where the project at hand is looked for, from there upwards."""
    return Path(os.environ.get("ASV_CONF_DIR") or Path.cwd())


def own_package_at_hand() -> OwnPackage | None:
    """The copy of the project's package that is imported here: the one that the environment names,
    else the project's own files where nothing installs it. None for an installed one."""
    named = own_package.declared(os.environ)
    if named is not None:
        return named
    root = asv_config.project_root(_here())
    if root is None:
        return None
    source = asv_config.source_folder(root)
    if asv_config.build_commands(root, source)[1]:
        return None
    return own_package.unbuilt(source, not_of_the_package(root))


def not_of_the_package(root: Path) -> set[str]:
    """The names of the folders of benchmarks and of workloads, which no commit brings."""
    benchmarks = asv_config.text_of(root, "benchmark_dir", "benchmarks")
    return {Path(benchmarks).name, *(folder.name for folder in folders())}


@cache
def configured(start: Path) -> tuple[Path, ...]:
    """What the nearest pyproject.toml from `start` upwards names; read once, for every case that is
    read asks `declared`."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            try:
                table = tomllib.loads(read_stored(path).decode())
                named = table.get("tool", {}).get("hostbench", {}).get("workloads", [])
                if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
                    raise ValueError(f"workloads is {named!r:.60}, no list of folders")
                return tuple(folder / one for one in named)
            except (ValueError, AttributeError, TypeError, OSError) as error:
                raise UsageError(f"cannot read {path}: {error}; mend it") from error
    return ()


def _modules() -> dict[str, ModuleType]:
    return {name: one for name, one in _found().items() if isinstance(one, ModuleType)}


def _found() -> dict[str, ModuleType | str]:
    return _imported(folders())


@cache
def _imported(own: tuple[Path, ...]) -> dict[str, ModuleType | str]:
    """Family -> its module, imported with its workloads; or why it cannot be."""
    found = {name: f"{__name__}.{name}" for name in _inside(__path__)}
    others = [(family_of(one.module), one.module) for one in _brought()]
    package = own_package_at_hand() if own or own_package.VARIABLE in os.environ else None
    if package is not None:
        own_package.import_from(package)
    if own:
        parent = ModuleType(_OWN)
        parent.__path__ = [str(folder) for folder in own]
        sys.modules[_OWN] = parent
        others += [(name, f"{_OWN}.{name}") for name in _inside(parent.__path__)]
    for name, module in others:
        if name in found:
            raise UsageError(f"{module} and {found[name]} are both the family {name!r}: rename one")
        found[name] = module
    modules = {name: _family(name, module) for name, module in found.items()}
    return dict(sorted(modules.items(), key=lambda item: (getattr(item[1], "ORDER", 50), item[0])))


def _brought() -> Iterable[EntryPoint]:
    """What installed packages bring, each module once."""
    return {one.module: one for one in entry_points(group="hostbench.workloads")}.values()


def _inside(folders: Collection[str]) -> list[str]:
    """The families in folders: modules, and folders with `workloads.py`, packages or not."""
    modules = [module.name for module in pkgutil.iter_modules(folders)]
    homes = sorted(path.parent for one in folders for path in Path(one).glob("*/workloads.py"))
    known = dict.fromkeys((*modules, *(path.name for path in homes)))
    return [name for name in known if not name.startswith(("_", "."))]


def _family(family: str, name: str) -> ModuleType | str:
    try:
        module = _import(family, name)
        if getattr(module, "__file__", None) is None:
            return f"the family {family!r} lacks an __init__.py beside its workloads.py: add one"
        if hasattr(module, "__path__"):
            _import(family, f"{name}.workloads")
    except UsageError as error:
        return str(error)
    return module


def _import(family: str, name: str) -> ModuleType:
    """Raises UsageError, which names the line that is wrong."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}{raised_at(error, _source(name))}"
        raise UsageError(f"the family {family!r} cannot be imported: {said}") from error


def _source(name: str) -> Path:
    """The file of a module; the folder of a package."""
    with suppress(ImportError):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            path = Path(spec.origin)
            return path.parent if spec.submodule_search_locations else path
    return Path(name)
