"""A project's package from one tree of its files, in a folder of its own: the files as they are, or
as pip builds them."""

import os
import subprocess
import sys
from pathlib import Path

from hostbench.core import asv_config
from hostbench.core.errors import UsageError
from hostbench.core.own_package import OwnPackage
from hostbench.core.user_project import names_in, unbuilt

_LINES = 5
"""Of what a build printed, where it failed."""


def package_of(root: Path, tree: Path, folder: Path) -> OwnPackage:
    """The package of the files in `tree`, to be imported from there, or from `folder`, which pip
    builds it into: what it depends on is installed, and is the same for every commit. `root` holds
    the asv.conf.json that is followed. Raises UsageError where it cannot be built."""
    if not asv_config.is_built(root, tree):
        return unbuilt(root, tree)
    timeout_s = asv_config.read(root).install_timeout
    words = ("install", "--no-deps", "--no-input", "--target", str(folder), str(tree))
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PIP_USER")}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"pip did not build it within {timeout_s:g} s") from error
    if done.returncode:
        of_build = done.stdout.partition("lines of output]")[2].partition("[end of output]")[0]
        lines = [line.strip() for line in (of_build or done.stdout).splitlines() if line.strip()]
        raise UsageError(f"pip cannot build it: {' | '.join(lines[-_LINES:])}")
    return OwnPackage(folder=str(folder), names=names_in(root, folder))
