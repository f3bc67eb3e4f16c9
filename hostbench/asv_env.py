"""asv's environment plugin: asv's own interpreter and torch, each commit's own hostbench.

asv.conf.json names it with a leading dot (`".hostbench.asv_env"`), or asv ignores it. The commit's
package and its benchmarks/ are copied into a folder of their own, which comes first on the
benchmark's path: an editable install of hostbench is never measured by mistake. In a user's project
the installed hostbench is copied, and the project's package is each commit's (`vcs.build`). The
environment's name has neither a path nor torch's version in it: one machine writes one series.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asv import commands, environment, util

from hostbench.core import own_package
from hostbench.core.errors import HostbenchError
from hostbench.core.user_project import is_hostbench
from hostbench.families import our_benchmarks
from hostbench.vcs.build import package_of

_ASV = ("asv", "__main__.py")
"""How the program's file is called."""
_PACKAGE = Path(__file__).resolve().parent
_GUARD = str(_PACKAGE / "asv_guard.py")


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """What a command line asks asv for, as asv itself reads it, with the `command`; nothing for
    what is none of asv's."""
    after = next((n for n, word in enumerate(words, 1) if Path(word).name in _ASV), len(words))
    try:
        options, _ = commands.make_argparser()[0].parse_known_args(words[after:])
        command = options.func.__self__.__name__.lower()
    except (SystemExit, AttributeError):  # no command, or `help`
        return {}
    return {**vars(options), "command": command}


class HostbenchEnvironment(environment.Environment):  # type: ignore[misc]
    """See the module's docstring."""

    tool_name = "hostbench"

    def __init__(
        self, conf: Any, python: str, requirements: dict[str, str], tagged_env_vars: Any
    ) -> None:
        self._python = f"{sys.version_info.major}.{sys.version_info.minor}"
        if python not in (self._python, "same", sys.executable) or requirements:
            # else numbers would be kept under versions that were not measured
            raise environment.EnvironmentUnavailable(
                f"hostbench measures with asv's own Python {self._python} and its packages: leave "
                "`pythons`, and `req` of `matrix`, out of asv.conf.json"
            )
        self._requirements = requirements  # asv's constructor reads it before it sets it
        super().__init__(conf, self._python, requirements, tagged_env_vars)
        self._site = Path(self._path) / "site"
        # Where a project's package is built, and what came of it is noted.
        self._own = Path(self._path) / "own"

    @classmethod
    def matches(cls, python: str) -> bool:
        return True

    def check_presence(self) -> bool:
        return Path(self._path).is_dir()

    def find_executable(self, executable: str) -> str:
        found: str = sys.executable if executable.startswith("python") else util.which(executable)
        return found

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run asv's script (or `-c`, `-m`) with the commit's package first on its path."""
        env = dict(kwargs.pop("env", None) or os.environ)
        env.update(self._global_env_vars)
        env["ASV_PYTHONPATH"] = str(self._site)
        env.pop("PYTHONPATH", None)
        with contextlib.suppress(FileNotFoundError):
            env[own_package.VARIABLE] = (self._own / "package.json").read_text()
        guarded = [_GUARD, *args] if args and args[0].endswith(".py") else args
        return util.check_output([sys.executable, "-P", *guarded], env=env, **kwargs)

    def install_project(self, conf: Any, repo: Any, commit_hash: str | None = None) -> None:
        if not is_hostbench(Path.cwd()):
            self._set_installed_commit_hash(None)  # hostbench may be another since
        super().install_project(conf, repo, commit_hash)

    def _setup(self) -> None:
        (Path(self._path) / "bin").mkdir(parents=True, exist_ok=True)

    def _build_project(self, repo: Any, commit_hash: str, build_dir: str) -> None:
        """Nothing: hostbench is plain Python, and a project's package is built as it is installed,
        in a folder of its own."""

    def _install_project(self, repo: Any, commit_hash: str, build_dir: str) -> None:
        """Copy the folder, which is what pip would make of it in seconds, and its bytecode, which
        goes by its files' times. A commit without one, or whose package cannot be built, is a
        failed install for asv, which goes on with the next."""
        for folder in (self._site, self._own):
            shutil.rmtree(folder, ignore_errors=True)
        self._site.mkdir()
        is_own = not is_hostbench(Path.cwd())
        package = _PACKAGE if is_own else Path(build_dir) / "hostbench"
        site = self._site / "hostbench"
        util.check_call(["cp", "-rp", str(package), str(site)])
        if not (site / "_benchmarks").is_dir():  # what is installed has them inside
            util.check_call(["cp", "-rp", str(our_benchmarks(package)), str(site / "_benchmarks")])
        if not is_own:
            return
        self._own.mkdir()
        commit = commit_hash[:8]
        try:
            built = package_of(Path.cwd(), Path(build_dir), self._own / "build")
        except HostbenchError as error:  # asv does not say why a build failed
            print(f"hostbench: {commit}: {error}", file=sys.stderr, flush=True)
            raise util.ProcessError([f"building {commit}"], 1, str(error), "") from error
        (self._own / "package.json").write_text(built.encoded())

    def _uninstall_project(self) -> None:
        shutil.rmtree(self._site, ignore_errors=True)
        self._set_installed_commit_hash(None)
