"""The layers hold: imports point down, the wheel is whole."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import hostbench
from hostbench.cli.commands import COMMANDS
from hostbench.families import load

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Lowest first. A module imports from its own room or from rooms of lines above it.
LAYERS = (
    "core",
    "facts",
    "limits",
    "device",
    "measure",
    "ranks",
    "families",
    "runner",
    "store",
    "vcs",
    "suite asv_env asv_guard asv_measure",
    "judge",
    "report",
    "idle",
    "cli __main__",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
NOBODY_IMPORTS = ("cli", "__main__", "_benchmarks", "_dashboard")
FOR_THE_DASHBOARD = set("core families limits store judge report _dashboard".split())
# Third-party package -> the only rooms that may import it.
OWNERS = {
    "pynvml": {"facts"},
    "asv": {"asv_env", "facts", "store", "vcs"},
    "argparse": set(),
    "click": {"cli"},
    "rich": {"runner", "report"},
    "streamlit": set(),
    "deltalake": {"store"},
    "pyarrow": {"store"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file as parsed, once for all tests."""

    path: Path
    imports: tuple[tuple[int, str], ...]
    """Line and dotted name of everything that it imports, wherever in the file it does so."""

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def top(self) -> str:
        return self.path.relative_to(ROOT).parts[0]

    @property
    def room(self) -> str:
        """`device` for hostbench/device/cuda.py, `suite` for hostbench/suite.py, `` for the face of
        the package. What `python -m` starts stands beside the commands."""
        if self.path.name == "__main__.py":
            return "__main__"
        first = self.path.relative_to(ROOT / self.top).parts[0]
        return "" if first == "__init__.py" else first.removesuffix(".py")

    def rooms(self) -> Iterator[tuple[str, str]]:
        """`file:line` and room of each import from hostbench."""
        for line, name in self.imports:
            top, _, rest = name.partition(".")
            room = _home(rest.partition(".")[0])
            if top == "hostbench" and room and room != "__version__":
                yield f"{self.name}:{line} imports {room}", room


def _home(name: str) -> str:
    """`measure` for DEVICES and `families` for Compare, which the face of the package names."""
    return hostbench._HOME[name].split(".")[1] if name in hostbench._HOME else name


@cache
def sources() -> tuple[Source, ...]:
    folders = ("hostbench", "benchmarks", "dashboard")
    return tuple(
        _parse(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))
    )


def of(folder: str) -> Iterator[Source]:
    return (source for source in sources() if source.top == folder)


def _parse(path: Path) -> Source:
    package = path.relative_to(ROOT).parent.parts
    imports: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imports += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            imports += ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
    return Source(path=path, imports=tuple(imports))


def test_imports_point_down() -> None:
    wrong = []
    for source in of("hostbench"):
        room = source.room
        if not room:
            continue  # it names what others import; tests/cli holds what --help loads
        assert room in LEVEL, f"give {room} a place in LAYERS"
        for where, other in source.rooms():
            if other == room:
                continue
            assert other in LEVEL or other in NOBODY_IMPORTS, f"{where}, which has no place"
            if other in NOBODY_IMPORTS and room != "__main__":
                wrong.append(where)
            elif LEVEL[other] > LEVEL[room]:
                wrong.append(f"{where}, which is above it")
    assert not wrong


def test_nobody_imports_the_edges_or_a_command() -> None:
    commands = [f"hostbench.cli.{name}" for name in COMMANDS.commands]
    edges = "|".join(["benchmarks", "dashboard", "tests", *commands])
    imports = [(source.name, name) for source in sources() for _, name in source.imports]
    assert not [pair for pair in imports if re.match(rf"({edges})(\.|$)", pair[1])]


def test_each_package_has_one_owner() -> None:
    wrong = [
        f"{source.name}:{line} imports {name}"
        for source in of("hostbench")
        for line, name in source.imports
        if source.room not in OWNERS.get(name.partition(".")[0], {source.room})
    ]
    assert not wrong


def test_dashboard_reads_only() -> None:
    wrong = [
        where
        for source in of("dashboard")
        for where, room in source.rooms()
        if room not in FOR_THE_DASHBOARD
    ]
    assert not wrong


def test_the_wheel_carries_every_package() -> None:
    """setup.py finds those of hostbench/ by their __init__.py, and names the others."""
    folders = {source.path.parent for source in sources()}
    lacking = [str(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert not lacking, "no __init__.py"
    mapped = PYPROJECT["tool"]["setuptools"]["package-dir"]
    names = {folder: name for name, folder in mapped.items()}
    others = {folder.relative_to(ROOT).parts for folder in folders} - {("hostbench",)}
    wanted = {".".join((names[top], *rest)) for top, *rest in others if top in names}
    text = (ROOT / "setup.py").read_text()
    assert all(f'"{name}"' in text for name in wanted)


def test_every_direct_dependency_is_pinned() -> None:
    project = PYPROJECT["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[=<>~!\[; ]", line)[0].replace("-", "_") for line in wanted}
    lines = [line for line in (ROOT / "constraints.txt").read_text().split() if "==" in line]
    assert names == {line.partition("==")[0].replace("-", "_") for line in lines}


def check_unloaded(imports: str, which: str) -> None:
    """A process that imports these modules has loaded no module `m` of which that is true."""
    code = f"import {imports}, sys; print([m for m in sys.modules if {which}])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_importing_costs_nothing() -> None:
    """Of `hostbench --help` it is tested where it is run."""
    check_unloaded("hostbench.cli.hosts", "m == 'torch'")
    check_unloaded("hostbench.facts, hostbench.cli.doctor", "m in ('torch', 'numpy', 'pynvml')")


def test_what_asv_and_simulated_workers_import_is_light() -> None:
    """asv starts four processes or so for each family and round."""
    heavy = ("numpy", "torch", "pandas", "click")
    check_unloaded("hostbench.suite, hostbench.device.simulated", f"m in {heavy}")


def test_no_workload_is_named_outside_its_family() -> None:
    """By its whole name, be it the text or the start of one as in `a.b[axis=value]`."""
    named = re.compile(rf"""["'](?:{"|".join(map(re.escape, load()))})\b""")
    examples = {"hostbench/cli/commands.py"}  # what --help shows
    wrong = {
        source.name
        for source in (*of("hostbench"), *of("dashboard"))
        if source.room != "families" and named.search(source.path.read_text())
    }
    assert wrong <= examples
