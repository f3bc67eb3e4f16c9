"""The layers hold: imports point down, files stay small, the wheel is whole, importing is free."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Lowest first. A module imports from its own line or from lines above it.
LAYERS = (
    "errors units",
    "case files processes",
    "samples clock shapes noise",
    "toml_file",
    "bandwidth efficiency latency pcie round_trip",
    "journal",
    "facts",
    "device",
    "ceilings",
    "measure evidence",
    "workload",
    "ranks",
    "workloads",
    "runner",
    "suite asv_env asv_guard",
    "store",
    "judge simulation",
    "report",
    "cli gpu_check __main__",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
NOBODY_IMPORTS = ("cli", "__main__", "_benchmarks", "_dashboard")
FOR_THE_DASHBOARD = set(
    (
        "bandwidth ceilings efficiency latency round_trip store judge units workload workloads "
        "report case errors samples _dashboard"
    ).split()
)
# Third-party package -> the only rooms that may import it.
OWNERS = {
    "pynvml": {"facts"},
    "asv": {"asv_env"},
    "streamlit": set(),
    "duckdb": {"store"},
    "pyarrow": {"store"},
}
HEAVY = ("torch", "numpy", "pandas", "streamlit", "pynvml", "duckdb", "pyarrow")
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


SOURCES = [path for top in ("hostbench", "benchmarks", "dashboard") for path in python_files(top)]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    """`device` for hostbench/device/cuda.py, `case` for hostbench/case.py, `` for __init__.py."""
    first = path.relative_to(ROOT / "hostbench").parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports, wherever in the file it does so."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def rooms_imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of each import from hostbench; `from hostbench import __version__` is none."""
    for line, name in imports(path):
        top, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if top == "hostbench" and room and room != "__version__":
            yield line, room


@pytest.mark.parametrize("path", python_files("hostbench"), ids=shown)
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    assert not room or room in LEVEL, f"give {room} a place in LAYERS"
    for line, other in rooms_imported(path):
        where = f"{shown(path)}:{line} imports {other}"
        if other == room:
            continue
        assert other not in NOBODY_IMPORTS or room == "__main__", where
        assert other in LEVEL, f"{where}, which has no place in LAYERS"
        assert LEVEL[other] <= LEVEL.get(room, -1), f"{where}, which is above it"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_nobody_imports_the_edges(path: Path) -> None:
    edges = {"benchmarks", "dashboard", "tests"}
    found = {name.partition(".")[0] for _, name in imports(path)}
    assert not found & edges


@pytest.mark.parametrize("path", python_files("hostbench"), ids=shown)
def test_each_package_has_one_owner(path: Path) -> None:
    room = room_of(path)
    for line, name in imports(path):
        top = name.partition(".")[0]
        owners = OWNERS.get(top)
        assert owners is None or room in owners, f"{shown(path)}:{line} imports {top}"


@pytest.mark.parametrize("path", python_files("dashboard"), ids=shown)
def test_dashboard_reads_only(path: Path) -> None:
    for line, room in rooms_imported(path):
        assert room in FOR_THE_DASHBOARD, f"{shown(path)}:{line} imports hostbench.{room}"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_small_files_and_functions(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES, f"{shown(path)}: split it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{shown(path)}:{node.lineno} {node.name}: {lines}"


def test_the_wheel_carries_every_package() -> None:
    setuptools = PYPROJECT["tool"]["setuptools"]
    folders = setuptools["package-dir"]
    names = {folder: name for name, folder in folders.items()}
    expected = set()
    for path in SOURCES:
        top, *rest = path.relative_to(ROOT).parent.parts
        expected.add(".".join((names.get(top, top), *rest)))
    assert sorted(expected) == sorted(setuptools["packages"])
    # An editable install does not find a mapped folder without one.
    lacking = [shown(path.parent) for path in SOURCES if not (path.parent / "__init__.py").exists()]
    assert not lacking, "no __init__.py"


def test_every_direct_dependency_is_pinned() -> None:
    project = PYPROJECT["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[=<>~!\[; ]", line)[0].replace("-", "_") for line in wanted}
    lines = [line for line in (ROOT / "constraints.txt").read_text().split() if "==" in line]
    assert names == {line.partition("==")[0].replace("-", "_") for line in lines}


def test_importing_costs_nothing() -> None:
    """`hostbench --help` works, and fast, on a machine without any of HEAVY."""
    names = [name for name in ("hostbench", "hostbench.cli") if find_spec(name)]
    code = f"import {', '.join(names)}, sys; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
