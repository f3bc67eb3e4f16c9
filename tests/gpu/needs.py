"""What `make gpu-check` needs of the Python and the machine that it finds, and what it lacks.

Knows only Python's own modules: it is asked before anything else is known to be there.
"""

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"
EVERY_FILE = ("torch", "msgspec", "numpy", "pytest", "pluggy")
"""Without one of these nothing can be run."""
RUNS = ("test_run", "test_nccl")
"""Files that call `hostbench run`, which needs all of hostbench's dependencies."""
OWN_BOUNDS = {"pytest": "7.4", "pluggy": "1.2"}
"""For tests/gpu with check.ini; the rest of the tests asks for a newer pytest."""
MODULES = {"nvidia-ml-py": "pynvml"}
"""Where a package's module is called otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Something that is missing or old."""

    name: str
    wrong: str
    remedy: str
    therefore: str
    stops: tuple[str, ...] | None = ()
    """The files that cannot be run; None: no file can."""

    def __str__(self) -> str:
        return f"{self.name} {self.wrong}: {self.therefore}; {self.remedy}"


def lacking() -> list[Lack]:
    """What stops most comes first."""
    found = [lack for name, least in bounds().items() if (lack := _lack(name, least))]
    if shutil.which("git") is None:
        found.append(
            Lack(
                name="git",
                wrong="is not installed",
                therefore="the report cannot say which commit it is of",
                remedy="apt-get install git, or note the commit yourself",
            )
        )
    return sorted(found, key=lambda lack: (lack.stops is not None, not lack.stops))


def bounds(project: Path = PROJECT) -> Mapping[str, str]:
    """Package -> the least version that will do: those of hostbench, of tests/gpu, and NVML's."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    wanted = dict(_parsed([*table["dependencies"], *table["optional-dependencies"]["bench"]]))
    own = [name for name, _ in _parsed(table["dependencies"])]
    named = dict.fromkeys((*EVERY_FILE, *own, "nvidia-ml-py"))
    return {name: OWN_BOUNDS.get(name) or wanted[name] for name in named}


def _parsed(requirements: list[str]) -> Iterator[tuple[str, str]]:
    for text in requirements:
        name, _, least = re.split(r"(>=|==)", text, maxsplit=1)
        yield name, least


def _lack(name: str, least: str) -> Lack | None:
    remedy = f"pip install '{name}>={least}'"
    if find_spec(MODULES.get(name, name)) is None:
        return _stopped(name, "is not installed", remedy)
    there = version(name)
    if there is None or _numbers(there) >= _numbers(least):
        return None
    wrong = f"{there} is older than {least}"
    if name in OWN_BOUNDS:
        return _stopped(name, wrong, remedy)
    return Lack(name=name, wrong=wrong, remedy=remedy, therefore="it is tried all the same")


def _stopped(name: str, wrong: str, remedy: str) -> Lack:
    if name in EVERY_FILE:
        return Lack(
            name=name, wrong=wrong, remedy=remedy, therefore="nothing can be run", stops=None
        )
    if name in MODULES:
        therefore = "facts of the GPU and the counters of its link are left out"
        return Lack(name=name, wrong=wrong, remedy=remedy, therefore=therefore)
    therefore = f"{' and '.join(RUNS)} are not run"
    return Lack(name=name, wrong=wrong, remedy=remedy, therefore=therefore, stops=RUNS)


def version(name: str) -> str | None:
    """Of an installed package; None where it does not tell."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    """`2.6.0a0+df5bbc09d1.nv24.11` is 2, 6: builds and prereleases are not told apart."""
    return tuple(int(part) for part in re.match(r"\d+(\.\d+)?", text)[0].split("."))  # type: ignore[index]
