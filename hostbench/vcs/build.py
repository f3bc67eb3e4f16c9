"""A project's package from one tree of its files, as its asv.conf.json says, in a folder of its
own.

Its commands run with asv's substitutions, in an environment that is made for this one tree: a bare
one, which sees what the interpreter at hand has installed and never writes there.
"""

import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from hostbench.core import asv_config, own_package
from hostbench.core.errors import UsageError, install
from hostbench.core.own_package import OwnPackage

_TIMEOUT_S = 600.0
"""For one command, as in asv, where asv.conf.json names no `install_timeout`."""
_LINES = 5
"""Of what a command printed, where it failed."""


def package_of(
    root: Path,
    tree: Path,
    folder: Path,
    commit: str | None,
    without: Collection[str] = (),
) -> OwnPackage:
    """The package of the files in `tree`, to be imported from there, or from `folder`, where it is
    installed. `root` holds the asv.conf.json that is followed; `without`: no names of the package.
    Raises UsageError where a command fails."""
    build, installing = asv_config.build_commands(root, tree)
    if build or installing:
        commands = _Commands(root, tree, folder, commit)
        commands.run(build)
        # What it depends on is there, and is the same for every commit. A build may fetch its own.
        # Where the same version is installed already, as it often is, pip would leave it at that.
        commands.run(installing, {"PIP_NO_DEPS": "1", "PIP_FORCE_REINSTALL": "1"})
        if names := own_package.names_in(commands.site, without):  # none where it is editable
            return OwnPackage(folders=(str(commands.site),), names=names)
    return own_package.unbuilt(tree, without)


class _Commands:
    """Runs what asv.conf.json says, as asv does, in an environment of its own."""

    def __init__(self, root: Path, tree: Path, folder: Path, commit: str | None) -> None:
        self._tree = tree
        self._home = folder / "env"
        self._wheels = folder / "wheels"
        self._wheels.mkdir(parents=True)
        self.site = environment(self._home)
        self._timeout_s = asv_config.read(root).get("install_timeout", _TIMEOUT_S)
        if not isinstance(self._timeout_s, int | float):
            raise asv_config.unreadable(root, "install_timeout is no number of seconds")
        self._variables = {
            "project": asv_config.text_of(root, "project", root.name),
            "conf_dir": str(root),
            "env_name": "hostbench",
            "env_type": "hostbench",
            "env_dir": str(self._home),
            "build_dir": str(tree),
            "build_cache_dir": str(self._wheels),
            **({} if commit is None else {"commit": commit}),
        }

    def run(self, commands: Iterable[str], environ: Mapping[str, str] | None = None) -> None:
        """Raises UsageError."""
        try:
            from asv import util
        except ImportError as error:
            raise UsageError(f"asv.conf.json is read as asv does it: {install('bench')}") from error
        for command in commands:
            wheels = [str(path) for path in self._wheels.glob("*.whl")]
            known = self._variables | ({"wheel_file": wheels[0]} if len(wheels) == 1 else {})
            try:
                words, more, codes, cwd = util.interpolate_command(command, known)
                util.check_output(
                    words,
                    valid_return_codes=codes,
                    timeout=self._timeout_s,
                    dots=False,
                    display_error=False,
                    env={**self._environ(), **(environ or {}), **more},
                    cwd=cwd or str(self._tree),
                    redirect_stderr=True,
                )
            except (util.UserError, OSError) as error:
                raise UsageError(f"`{command}`: {error}") from error
            except util.ProcessError as error:
                lines = [line.strip() for line in error.stdout.splitlines() if line.strip()]
                raise UsageError(f"{error}: {' | '.join(lines[-_LINES:])}") from error

    def _environ(self) -> dict[str, str]:
        """This process's, with the environment's programs first and pip kept inside it."""
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        upper = {f"ASV_{name.upper()}": value for name, value in self._variables.items()}
        path = os.pathsep.join([str(self._home / "bin"), kept.get("PATH", os.defpath)])
        pip = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        return {**kept, **upper, **pip, "ASV": "true", "PATH": path, "VIRTUAL_ENV": str(self._home)}


def environment(home: Path) -> Path:
    """Make it; the folder where what is installed in it lies. What this interpreter has is found
    behind that, so that pip and what a build needs are there."""
    import venv  # asv's processes, which import this file, have no use for it

    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    inside = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(home)}))
    inside.mkdir(parents=True, exist_ok=True)
    others = [one for one in sys.path if one.endswith("-packages")]
    (inside / "hostbench-parent.pth").write_text("".join(f"{one}\n" for one in others))
    for name in ("pip", "pip3"):
        program = home / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{home}/bin/python" -m pip "$@"\n')
        program.chmod(0o755)
    return inside
