"""The families, by the files that declare them: one question of the host/device paradigm each.

A family is a file with workloads: of hostbench's own benchmarks/, of the folders that the project
at hand names in its pyproject.toml,

    [tool.hostbench]
    workloads = ["benchmarks/"]

or a module that an installed package names as an entry point of the group `hostbench.workloads`.
Nothing lists them; a file whose name begins with `_` is a helper's. They import the project's
package from its files where nothing builds it (`core.own_package`), or from the commit's copy that
is measured. The packages in this folder hold what the workloads of hostbench's own families share,
and what is asked of them.
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

import hostbench
from hostbench.core import asv_config, own_package
from hostbench.core.case import Selector
from hostbench.core.errors import UsageError, raised_at
from hostbench.core.files import read_stored
from hostbench.core.own_package import OwnPackage
from hostbench.core.suggest import did_you_mean, why_no_case
from hostbench.measure.asv_class import Suite
from hostbench.measure.declare import check_family
from hostbench.measure.workload import Workload, family_of, register, registry

FOLDERS = "HOSTBENCH_WORKLOADS"
"""Folders of workloads, separated as in PATH, in place of what pyproject.toml names."""
_OURS = "hostbench_benchmarks"
_PROJECTS = "hostbench_workloads"
"""The packages that the files of either kind of folder are imported under: not by the name that asv
has imported HEAD's by."""


def names() -> tuple[str, ...]:
    """Every family, in the order that a reader meets them: by `ORDER` of its module (50 unless it
    says otherwise), then by name."""
    return tuple(_families())


def broken() -> dict[str, str]:
    """Family -> why it cannot be imported, and where."""
    return {name: why for name, why in _families().items() if isinstance(why, str)}


def load(families: tuple[str, ...] | None = None) -> dict[str, Workload]:
    """Import the families' workloads and return them by name, in declaration order; without names
    those of every family that can be imported.

    Raises UsageError for a family that is named and does not exist, or cannot be imported.
    """
    known = _families()
    for family in families or ():
        if family not in known:
            raise UsageError(_unknown(family, known))
        if family in broken():
            raise UsageError(broken()[family])
    wanted = tuple(_modules()) if families is None else families
    works = registry().values()
    return {work.name: work for family in wanted for work in works if work.family == family}


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


def is_ours(family: str) -> bool:
    """Whether the family is hostbench's own, and no project's."""
    return _modules()[family].__name__.startswith(f"{_OURS}.")


def questions(family: str) -> tuple[Any, ...]:
    """What the family asks of its cases: `QUESTIONS` of its file, of ours those of the module
    `questions` here. Raises UsageError for what is no question."""
    asked = getattr(_asking(family), "QUESTIONS", ())
    if not isinstance(asked, tuple | list) or any(not hasattr(ask, "workload") for ask in asked):
        raise UsageError(
            f"QUESTIONS of the family {family!r} is {asked!r:.60}, no tuple of questions as in "
            "docs/your-own.md; mend it"
        )
    return tuple(asked)


def words(family: str) -> dict[str, dict[Any, str]]:
    """Axis -> value -> how a reader calls it: `WORDS` beside the questions."""
    return dict(getattr(_asking(family), "WORDS", {}))


def _asking(family: str) -> ModuleType | None:
    module = _modules().get(family)
    beside = f"{__name__}.{family}"
    if module and is_ours(family) and importlib.util.find_spec(beside):
        return importlib.import_module(f"{beside}.questions")
    return module


def preloads() -> tuple[str, ...]:
    """What the families want to be imported once, before the launches are forked: `PRELOAD` beside
    their workloads."""
    named = [getattr(module, "PRELOAD", ()) for module in _modules().values()]
    one_each = ((names,) if isinstance(names, str) else names for names in named)
    return tuple(dict.fromkeys(chain.from_iterable(one_each)))


def our_benchmarks(package: Path = Path(hostbench.__file__).parent) -> Path:
    """The folder benchmarks/ of a copy of hostbench: inside it where it is installed or made for a
    commit, beside it in a checkout."""
    inside = package / "_benchmarks"
    return inside if inside.is_dir() else package.parent / "benchmarks"


def of_project() -> tuple[str, ...]:
    """The families of the project at hand: in its own folders, or in its package, which brings them
    by entry points."""
    brought = {point.module for point in _brought()}
    return tuple(
        name
        for name, module in _modules().items()
        if module.__name__.startswith(f"{_PROJECTS}.")
        or (module.__name__ in brought and _is_at_hand(Path(str(module.__file__))))
    )


def broken_of_project() -> dict[str, str]:
    """As `broken`, but for what other installed packages bring: that stops nobody here."""
    others = {
        family_of(point.module)
        for point in _brought()
        if not _is_at_hand(_source(point.module.partition(".")[0]))
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
    """The source of every family that is not hostbench's own."""
    return [source(family) for family in _modules() if not is_ours(family)]


def source(family: str) -> Path:
    """The file of a family that can be imported."""
    return Path(str(_modules()[family].__file__))


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
    return {name: module for name, module in _families().items() if isinstance(module, ModuleType)}


def _families() -> dict[str, ModuleType | str]:
    return _imported(folders())


@cache
def _imported(projects: tuple[Path, ...]) -> dict[str, ModuleType | str]:
    """Family -> its module, imported with its workloads; or why it cannot be."""
    package = own_package_at_hand() if projects or own_package.VARIABLE in os.environ else None
    if package is not None:
        own_package.import_from(package)
    homes = [*_inside(_OURS, (our_benchmarks(),)), *_inside(_PROJECTS, projects)]
    known: dict[str, str] = {}
    modules: dict[str, ModuleType | str] = {}
    for module in (*homes, *(brought.module for brought in _brought())):
        family = family_of(module)
        if family in known:
            raise UsageError(f"{module} and {known[family]} are both the family {family!r}: "
                             "rename one")  # fmt: skip
        imported = _family(family, module)
        if imported is not None:
            known[family], modules[family] = module, imported
    return dict(sorted(modules.items(), key=lambda item: (getattr(item[1], "ORDER", 50), item[0])))


def _brought() -> Iterable[EntryPoint]:
    """What installed packages bring, each module once."""
    return {point.module: point for point in entry_points(group="hostbench.workloads")}.values()


def _inside(parent: str, folders: Collection[Path]) -> list[str]:
    """The modules in folders that may declare workloads, under a package made for them. What does
    not name hostbench is a benchmark of asv's own kind, and is not run."""
    package = sys.modules[parent] = ModuleType(parent)
    package.__path__ = [str(folder) for folder in folders]
    files = {
        module.name: Path(str(module.module_finder.path), f"{module.name}.py")  # type: ignore[union-attr]
        for module in pkgutil.iter_modules(package.__path__)
        if not module.name.startswith("_") and not module.ispkg
    }
    return [f"{parent}.{name}" for name, path in files.items() if b"hostbench" in path.read_bytes()]


def _family(family: str, name: str) -> ModuleType | str | None:
    """The module, its workloads registered; why it cannot be imported; None for a file without
    workloads."""
    try:
        module = _import(family, name)
        suites = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Suite) and value.__module__ == name
        ]
        check_family(suites, thorough=not name.startswith(f"{_OURS}."))  # a test holds ours
    except UsageError as error:
        return str(error)
    except ValueError as error:
        return f"the family {family!r} cannot be imported: {error}"
    for suite in suites:
        register(suite.declared)
    return module if suites else None


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
