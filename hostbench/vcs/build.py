"""A project's package from one tree of its files, as its asv.conf.json says, in a folder of its
own.

Its commands run with asv's substitutions, in an environment that is made for this one tree: a bare
one, which sees what the interpreter at hand has installed and never writes there.
"""

import os
import sys
import sysconfig
from pathlib import Path

from hostbench.core import asv_config
from hostbench.core.errors import UsageError, install
from hostbench.core.own_package import OwnPackage
from hostbench.core.user_project import names_in, unbuilt

_LINES = 5
"""Of what a command printed, where it failed."""
_PIP = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
_ONCE_MORE = {"PIP_NO_DEPS": "1", "PIP_FORCE_REINSTALL": "1"}
"""What the package depends on is there, and is the same for every commit; a build may fetch its
own. Where the same version is installed already, as it often is, pip would leave it at that."""


def package_of(root: Path, tree: Path, folder: Path, commit: str | None) -> OwnPackage:
    """The package of the files in `tree`, to be imported from there, or from `folder`, where it is
    installed. `root` holds the asv.conf.json that is followed. Raises UsageError where a command
    fails."""
    build, installing = asv_config.build_commands(root, tree)
    if not build and not installing:
        return unbuilt(root, tree)
    home, wheels = folder / "env", folder / "wheels"
    wheels.mkdir(parents=True)
    site = environment(home)
    variables = {
        "project": asv_config.read(root, "project").project or root.name,
        "conf_dir": str(root),
        "env_name": "hostbench",
        "env_type": "hostbench",
        "env_dir": str(home),
        "build_dir": str(tree),
        "build_cache_dir": str(wheels),
        **({} if commit is None else {"commit": commit}),
    }
    # the environment's programs first, and pip kept inside it
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environ |= {f"ASV_{name.upper()}": value for name, value in variables.items()}
    environ |= _PIP | {"ASV": "true", "VIRTUAL_ENV": str(home)}
    environ["PATH"] = f"{home}/bin{os.pathsep}{environ.get('PATH', os.defpath)}"
    for command in build:
        _run(root, command, variables, environ)
    if len(built := list(wheels.glob("*.whl"))) == 1:
        variables["wheel_file"] = str(built[0])
    for command in installing:
        _run(root, command, variables, environ | _ONCE_MORE)
    names = names_in(root, site)
    return OwnPackage(folder=str(site), names=names) if names else unbuilt(root, tree)  # editable


def _run(root: Path, command: str, variables: dict[str, str], environ: dict[str, str]) -> None:
    """As asv runs it. Raises UsageError."""
    try:
        from asv import util
    except ImportError as error:
        raise UsageError(f"asv.conf.json is read as asv does it: {install('bench')}") from error
    timeout_s = asv_config.read(root, "install_timeout").install_timeout
    try:
        words, own, codes, folder = util.interpolate_command(command, variables)
        util.check_output(
            words,
            valid_return_codes=codes,
            timeout=timeout_s,
            dots=False,
            display_error=False,
            env=environ | own,
            cwd=folder or variables["build_dir"],
            redirect_stderr=True,
        )
    except (util.UserError, OSError) as error:
        raise UsageError(f"`{command}`: {error}") from error
    except util.ProcessError as error:
        lines = [line.strip() for line in error.stdout.splitlines() if line.strip()]
        raise UsageError(f"{error}: {' | '.join(lines[-_LINES:])}") from error


def environment(home: Path) -> Path:
    """Make it; the folder where what is installed in it lies. What this interpreter has is found
    behind that, so that pip and what a build needs are there."""
    import venv  # asv's processes, which import this file, have no use for it

    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    inside = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(home)}))
    inside.mkdir(parents=True, exist_ok=True)
    others = [entry for entry in sys.path if entry.endswith("-packages")]
    (inside / "hostbench-parent.pth").write_text("".join(f"{entry}\n" for entry in others))
    for name in ("pip", "pip3"):
        program = home / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{home}/bin/python" -m pip "$@"\n')
        program.chmod(0o755)
    return inside
