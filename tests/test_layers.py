"""The layers hold: imports point down, the wheel is whole."""

import ast
import re
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import hostbench
from hostbench.cli.commands import COMMANDS
from hostbench.families import load
from tests.commands import python

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Lowest first. A module imports from its own room or from rooms of lines above it. One that has no
# place here is a KeyError.
LAYERS = (
    "core",
    "facts",
    "limits",
    "device",
    "measure",
    "ranks",
    "families",
    "store",
    "runner",
    "vcs",
    "suite asv_env asv_guard asv_measure",
    "judge",
    "report",
    "idle",
    "cli __main__",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
LEVEL |= dict.fromkeys(("_benchmarks", "_dashboard"), len(LAYERS))  # which nobody imports
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


FILES = [
    path.relative_to(ROOT)
    for folder in ("hostbench", "benchmarks", "dashboard")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def room_of(file: Path) -> str:
    """`device` for hostbench/device/cuda.py, `suite` for hostbench/suite.py, `` for the face of the
    package. What `python -m` starts stands beside the commands."""
    if file.name == "__main__.py":
        return "__main__"
    first = file.parts[1]
    return "" if first == "__init__.py" else first.removesuffix(".py")


class Import(NamedTuple):
    """Wherever in the file it stands."""

    file: Path
    line: int
    name: str
    """Dotted."""

    @property
    def room(self) -> str:
        """Of hostbench, that is imported: `measure` for DEVICES and `families` for Compare, which
        the face of the package names; empty where it is none."""
        top, _, rest = self.name.partition(".")
        name = rest.partition(".")[0]
        if top != "hostbench" or name == "__version__":
            return ""
        return hostbench._HOME[name].split(".")[1] if name in hostbench._HOME else name


@cache
def imports(folder: str) -> list[Import]:
    found: list[Import] = []
    for file in FILES:
        package = file.parent.parts
        for node in ast.walk(ast.parse((ROOT / file).read_text())) if package[0] == folder else ():
            if isinstance(node, ast.Import):
                found += (Import(file, node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else ()
                base = ".".join((*above, *filter(None, [node.module])))
                found += (Import(file, node.lineno, f"{base}.{own.name}") for own in node.names)
    return found


def test_imports_point_down() -> None:
    """Of the face of the package, which names what others import, tests/cli holds what --help
    loads."""
    between = [
        (LEVEL[one.room] - LEVEL[room_of(one.file)], one)
        for one in imports("hostbench")
        if one.room and room_of(one.file)
    ]
    assert not [one for upwards, one in between if upwards > 0]


def test_nobody_imports_the_edges_or_a_command() -> None:
    commands = [f"hostbench.cli.{name}" for name in COMMANDS.commands]
    edges = "|".join(["benchmarks", "dashboard", "tests", *commands])
    every = [one for folder in ("hostbench", "benchmarks", "dashboard") for one in imports(folder)]
    assert not [one for one in every if re.match(rf"({edges})(\.|$)", one.name)]


def test_each_package_has_one_owner() -> None:
    owned = [one for one in imports("hostbench") if one.name.partition(".")[0] in OWNERS]
    assert not [one for one in owned if room_of(one.file) not in OWNERS[one.name.partition(".")[0]]]


def test_dashboard_reads_only() -> None:
    rooms = {one.room: one for one in imports("dashboard") if one.room}
    assert not [one for room, one in rooms.items() if room not in FOR_THE_DASHBOARD]


def test_the_wheel_carries_every_package() -> None:
    """setup.py finds those of hostbench/ by their __init__.py, and names the others."""
    folders = {file.parent for file in FILES}
    assert not [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()]
    mapped = PYPROJECT["tool"]["setuptools"]["package-dir"]
    names = {folder: name for name, folder in mapped.items()}
    others = {folder.parts for folder in folders} - {("hostbench",)}
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
    done = python("-c", f"import {imports}, sys; print([m for m in sys.modules if {which}])")
    assert (done.out.strip(), done.err) == ("[]", "")


def test_importing_costs_nothing() -> None:
    """Of `hostbench --help` it is tested where it is run."""
    check_unloaded("hostbench.cli.hosts", "m == 'torch'")
    check_unloaded("hostbench.judge.history, hostbench.judge.night", "m == 'deltalake'")
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
        str(file)
        for file in FILES
        if file.parts[0] != "benchmarks"
        and room_of(file) != "families"
        and named.search((ROOT / file).read_text())
    }
    assert wrong <= examples
