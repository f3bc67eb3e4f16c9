"""The families, by the files that declare them: one question of the host/device paradigm each.

A family is a file with workloads, of hostbench's own benchmarks/ or of the benchmark folder of the
user's project (`core.user_project`). Nothing lists them. They import the project's package from its
files where nothing builds it, or from the commit's copy that is measured. The modules in this
folder hold what the workloads of hostbench's own families share, and what is asked of them.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import hostbench
from hostbench.core import own_package, user_project
from hostbench.core.case import Selector, did_you_mean, why_no_case
from hostbench.core.errors import UsageError, raised_at
from hostbench.families.question import Picture
from hostbench.measure.workload import REGISTRY, Suite, Workload, check_family


class Family(NamedTuple):
    """A file that declares workloads, or cannot be imported."""

    path: Path
    is_ours: bool
    """hostbench's own, and no project's."""
    module: ModuleType | None
    broken: str = ""
    """Why it cannot be imported, and where."""


def known() -> dict[str, Family]:
    """Every family by its name, ordered by `ORDER` of its module (50 unless it has one), then by
    name."""
    return _imported(user_project.workload_folder())


def broken() -> dict[str, str]:
    """Family -> why it cannot be imported, and where."""
    return {name: family.broken for name, family in known().items() if family.broken}


def user_families() -> tuple[str, ...]:
    """The families of the user's project, also those that cannot be imported."""
    return tuple(name for name, family in known().items() if not family.is_ours)


def load(families: tuple[str, ...] | None = None) -> dict[str, Workload]:
    """Import the families' workloads and return them by name, in declaration order; without names
    those of every family that can be imported.

    Raises UsageError for a family that is named and does not exist, or cannot be imported.
    """
    every = known()
    for name in families or ():
        if name not in every:
            hint, names = did_you_mean(name, every), ", ".join(every)
            why = f"unknown family {name!r}{hint}; there are: {names}"
            raise UsageError(f"{why}; --case chooses workloads or cases")
        if every[name].broken:
            raise UsageError(every[name].broken)
    works = REGISTRY.values()
    wanted = every if families is None else families
    return {work.name: work for name in wanted for work in works if work.family == name}


def check_selects(selector: Selector, works: Mapping[str, Workload], where: str) -> None:
    """Raises UsageError for a selector that selects none of their cases; `where` it stands."""
    if not any(selector.selects(case) for work in works.values() for case in work.cases()):
        why = why_no_case(selector, {name: work.axes for name, work in works.items()})
        raise UsageError(
            f"{where}{selector.text!r} selects no case: {why}; `hostbench list --cases` names all"
        )


def declared(workload: str) -> Workload | None:
    """The workload of that name; None for another project's benchmark or one of another version."""
    known()
    return REGISTRY.get(workload)


def questions(family: str) -> tuple[Any, ...]:
    """What the family asks of its cases: `QUESTIONS` of its file, or of ours of its module here.
    Raises UsageError for what is no question."""
    asked = getattr(_asking(family), "QUESTIONS", ())
    if not isinstance(asked, tuple | list) or any(not hasattr(ask, "workload") for ask in asked):
        raise UsageError(
            f"QUESTIONS of the family {family!r} is {asked!r:.60}, not a tuple of questions as in "
            "docs/your-own.md; fix it"
        )
    return tuple(asked)


def words(family: str) -> dict[str, dict[Any, str]]:
    """Axis -> value -> how a reader calls it: `WORDS` beside the questions."""
    return dict(getattr(_asking(family), "WORDS", {}))


def pictures() -> dict[str, Picture]:
    """What the pages draw of every family: `PICTURES` beside the questions, by their names."""
    return {
        own.choice: replace(own, words={**words(name), **own.words})
        for name in known()
        for own in getattr(_asking(name), "PICTURES", ())
    }


def _asking(name: str) -> ModuleType | None:
    family = known().get(name)
    beside = f"{__name__}.{name}"
    if family and family.is_ours and importlib.util.find_spec(beside):
        return importlib.import_module(beside)
    return family.module if family else None


def preloads(names: Collection[str]) -> tuple[str, ...]:
    """What these families want imported before their launches are forked: their `PRELOAD`."""
    chosen = (family.module for name, family in known().items() if name in names)
    named = (getattr(module, "PRELOAD", ()) for module in chosen)
    lists = ((modules,) if isinstance(modules, str) else modules for modules in named)
    return tuple(dict.fromkeys(chain.from_iterable(lists)))


def our_benchmarks(package: Path = Path(hostbench.__file__).parent) -> Path:
    """The folder benchmarks/ of a copy of hostbench: inside it where it is installed or made for a
    commit, beside it in a checkout."""
    inside = package / "_benchmarks"
    return inside if inside.is_dir() else package.parent / "benchmarks"


@cache
def _imported(folder: Path | None) -> dict[str, Family]:
    """By name, imported with their workloads as far as they can be."""
    package = user_project.package() if folder or own_package.VARIABLE in os.environ else None
    if package is not None:
        own_package.import_from(package)
    families = _in_folder(our_benchmarks(), is_ours=True)
    for name, family in (_in_folder(folder, is_ours=False) if folder else {}).items():
        if name in families:
            raise UsageError(f"{family.path}: hostbench has a family {name!r}; rename yours")
        families[name] = family
    order = {name: getattr(family.module, "ORDER", 50) for name, family in families.items()}
    return {name: families[name] for name in sorted(families, key=lambda n: (order[n], n))}


def _in_folder(folder: Path, *, is_ours: bool) -> dict[str, Family]:
    """Its files that declare workloads or cannot be imported, as modules of a package made for
    them: not of that which asv makes of HEAD's. Their workloads are registered."""
    package = ModuleType("benchmarks_of_hostbench" if is_ours else "benchmarks_of_user")
    package.__path__ = [str(folder)]
    sys.modules[package.__name__] = package
    families = {}
    for path in user_project.workload_files(folder):
        name, why, module = f"{package.__name__}.{path.stem}", "", None
        suites: list[type[Suite]] = []
        try:
            module = importlib.import_module(name)
            values = [value for value in vars(module).values() if isinstance(value, type)]
            own = [value for value in values if value.__module__ == name]
            suites = [value for value in own if issubclass(value, Suite)]
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}{raised_at(error, path)}"
        try:
            check_family(suites, thorough=not is_ours)  # a test holds ours
        except ValueError as error:
            why = str(error)
        if why:
            why = f"the family {path.stem!r} cannot be imported: {why}"
            families[path.stem] = Family(path, is_ours, None, why)
        elif suites:
            families[path.stem] = Family(path, is_ours, module)
            REGISTRY.update({suite.declared.name: suite.declared for suite in suites})
    return families
