"""The user's project, which is not hostbench itself: its folder of workloads, and its package."""

import os
from functools import cache
from pathlib import Path

from hostbench.core import asv_config, own_package
from hostbench.core.errors import UsageError
from hostbench.core.own_package import OwnPackage

WORKLOADS = "HOSTBENCH_WORKLOADS"
"""Names a folder of workloads in place of the project's; empty: there is none."""


def is_hostbench(root: Path) -> bool:
    """Whether that is a checkout of hostbench."""
    return (root / "hostbench" / "asv_env.py").is_file()


def start() -> Path:
    """Where the project is looked for, from there upwards."""
    return Path(os.environ.get("ASV_CONF_DIR") or Path.cwd())


def benchmark_folder(root: Path) -> Path:
    """The folder of benchmarks that asv.conf.json in `root` names: workloads are files in there.

    Raises UsageError when it cannot be read.
    """
    return root / asv_config.text_of(root, "benchmark_dir", "benchmarks")


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
    if named is not None:
        return named
    root = asv_config.project_root(start())
    if root is None:
        return None
    source = asv_config.source_folder(root)
    if asv_config.build_commands(root, source)[1]:
        return None
    return own_package.unbuilt(source, {benchmark_folder(root).name})
