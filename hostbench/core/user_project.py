"""The user's project, which is not hostbench itself: its folder of workloads, and its package."""

import os
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from hostbench.core import asv_config, own_package
from hostbench.core.errors import UsageError
from hostbench.core.own_package import OwnPackage

WORKLOADS = "HOSTBENCH_WORKLOADS"
"""Names a folder of workloads in place of the project's; empty: there is none."""
BESIDE = frozenset({"test", "tests", "doc", "docs", "example", "examples", "scripts", "tools"})
"""Folders that lie beside a package, and are none that a project installs."""
_NEVER = frozenset({"hostbench", "setup", "conftest"})


def is_hostbench(root: Path) -> bool:
    """Whether that is a checkout of hostbench."""
    return (root / "hostbench" / "asv_env.py").is_file()


def start() -> Path:
    """Where the project is looked for, from there upwards."""
    return Path(os.environ.get("ASV_CONF_DIR") or Path.cwd())


def benchmark_folder(root: Path) -> Path:
    """The folder that asv.conf.json in `root` names: workloads are files in there. Raises
    UsageError."""
    return root / asv_config.read(root).benchmark_dir


def workload_folder() -> Path | None:
    """The folder of the project's workloads; None where it has none. Raises UsageError."""
    named = os.environ.get(WORKLOADS)
    if named is None:
        return _workload_folder(start())
    if named and not Path(named).is_dir():
        raise UsageError(f"{WORKLOADS}={named}: there is no such folder; name another or unset it")
    return Path(named) if named else None


@cache
def _workload_folder(below: Path) -> Path | None:
    """Read once, for every case of an archive asks whether it is declared."""
    root = asv_config.project_root(below)
    if root is None or is_hostbench(root):
        return None
    folder = benchmark_folder(root)
    return folder if folder.is_dir() else None


def workload_files(folder: Path) -> list[Path]:
    """The files in there that may declare workloads. One that does not name hostbench is a
    benchmark of asv's own kind, and is not run; `_` begins the name of a helper."""
    return [path for path in sorted(folder.glob("[!_]*.py")) if b"hostbench" in path.read_bytes()]


def package() -> OwnPackage | None:
    """The copy of the project's package that is imported here: the one that the environment names,
    else the project's own files where nothing installs it. None for an installed one."""
    named = own_package.declared(os.environ)
    root = asv_config.project_root(start())
    if named is not None or root is None:
        return named
    source = asv_config.source_folder(root)
    return None if asv_config.is_built(root, source) else unbuilt(root, source)


def unbuilt(root: Path, source: Path) -> OwnPackage:
    """The package in `source`, files of the project in `root`, as it is put on the path where it
    needs no building: `src/` where modules lie in there, else all of it, where a folder without
    `__init__.py` holds none."""
    if names := names_in(root, source / "src"):
        return OwnPackage(folder=str(source / "src"), names=names)
    return OwnPackage(folder=str(source), names=names_in(root, source, is_shared=False))


def names_in(root: Path, folder: Path, is_shared: bool = True) -> tuple[str, ...]:
    """The modules and packages in `folder` that nothing else may answer for. With `is_shared` also
    those below a folder without `__init__.py`, which others may share, as `company.product`."""
    aside = {*_NEVER, *BESIDE, benchmark_folder(root).name, *sys.stdlib_module_names}
    names = (name for name in _importable(folder, is_shared) if name.partition(".")[0] not in aside)
    return tuple(sorted(name for name in names if not name.startswith("__editable__")))


def _importable(folder: Path, is_shared: bool) -> Iterator[str]:
    yield from (module.name for module in pkgutil.iter_modules([str(folder)]))
    for path in folder.iterdir() if is_shared and folder.is_dir() else ():
        is_package = (path / "__init__.py").exists() or not path.name.isidentifier()
        if path.is_dir() and not path.is_symlink() and not is_package:
            yield from (f"{path.name}.{name}" for name in _importable(path, is_shared))


def another_installed(root: Path) -> str | None:
    """Why a run measures other files than those of the project in `root`: where they are built, it
    imports the package that is installed. None where that is theirs, or has the same texts; what is
    compiled cannot be told apart."""
    if is_hostbench(root) or package() is not None:
        return None
    own = unbuilt(root, asv_config.source_folder(root))
    for name in own.names:
        ours, theirs = Path(own.folder, *name.split(".")), _installed(name)
        if theirs is None:
            continue
        for path in ours.rglob("*.py") if ours.is_dir() else [ours.with_suffix(".py")]:
            other = theirs / path.relative_to(ours) if ours.is_dir() else theirs
            both = path.is_file() and other.is_file()  # else one is generated
            if both and path.read_bytes() != other.read_bytes():
                return f"another {name} is installed: `pip install -e .` puts this one there"
    return None


def _installed(name: str) -> Path | None:
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
