"""A Python on a machine that nobody here has: torch.cuda and NVML are stand-ins in all it starts.

`python_of(FOLDER, "2_gpus")` makes FOLDER/bin/python, a virtual environment on the packages of this
Python (`scripts/gpu-stand-in` does it from the shell). Whatever runs on it, its children too
(`FOLDER/bin/python -m hostbench run --device cuda`), meets that machine. Times are a virtual
clock's, and no measurement; each GPU is called a stand-in, and so is torch, for NVML may tell no
GPU's name.
"""

import atexit
import importlib
import importlib.abc
import importlib.machinery
import site
import sys
import venv
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import hostbench
from hostbench.core.units import MIB
from hostbench.facts import files as facts_files
from hostbench.testing.fake_nvml import FakeNvml
from hostbench.testing.gpu_machines import MACHINES

_HOOK = "hostbench_stand_in"
_HOOK_CODE = """\
import sys
sys.path.append({root!r})
from hostbench.testing import stand_in
stand_in.start({machine!r}, {folder!r})
"""
_QUICKER = {
    "hostbench.device.cuda": {"_SETTLE_BYTES": MIB, "_SETTLE_LEAST_S": 0.02},
    "hostbench.measure.measure": {"MAX_WARMUPS": 1},
}
"""By module: on a virtual clock nothing gets warm, and a step takes this machine far longer than it
takes the GPU."""
_FILES = "files"
"""Folder of what the kernel shows on the machine, where that is not what it shows here."""
_PYNVML_CODE = """\
from hostbench.testing import stand_in


def __getattr__(name):
    return getattr(stand_in.nvml[0], name)
"""


nvml: list[FakeNvml] = []
"""That of this process's machine, once it has started; `pynvml` asks it."""
_STARTED = ExitStack()
"""For the life of the process."""
atexit.register(_STARTED.close)


def python_of(folder: Path, machine: str) -> Path:
    """The interpreter on that machine. Raises KeyError for an unknown one."""
    MACHINES[machine]
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    root = str(Path(hostbench.__file__).parent.parent)
    code = _HOOK_CODE.format(root=root, machine=machine, folder=str(folder))
    (packages / f"{_HOOK}.py").write_text(code)
    for path, text in MACHINES[machine].files.items():
        shown = folder / _FILES / path
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(text)
    (packages / "pynvml.py").write_text(_PYNVML_CODE)
    lines = [*site.getsitepackages(), f"import {_HOOK}"]
    (packages / f"{_HOOK}.pth").write_text("".join(f"{line}\n" for line in lines))
    return folder / "bin" / "python"


def start(name: str, folder: str) -> None:
    """From here on this process is on that machine: NVML at once, CUDA when torch is imported."""
    fake_nvml, machine = MACHINES[name].make(Path(folder))
    nvml[:] = [fake_nvml]

    def on_torch(torch: Any) -> None:
        torch.__version__ = type(torch.__version__)(_marked(torch.__version__))
        fake_cuda: Any = importlib.import_module("hostbench.testing.fake_cuda.bindings")
        _STARTED.enter_context(fake_cuda.installed(machine))

    def on_hostbench(module: Any) -> None:
        vars(module).update(_QUICKER[module.__name__])
        if hasattr(module, "CudaDevice"):
            module.CudaDevice.now = lambda self: machine.now_s

    _mark_torch()
    _show(Path(folder) / _FILES)
    sys.meta_path.insert(0, _After({"torch": on_torch, **dict.fromkeys(_QUICKER, on_hostbench)}))


def _marked(version: str) -> str:
    """The version with `stand-in` in its local part, so that it still reads as one."""
    return f"{version}{'.' if '+' in version else '+'}stand-in"


def _mark_torch() -> None:
    """Also where the facts ask for the package's version."""
    version = metadata.version

    def marked(distribution_name: str) -> str:
        own = version(distribution_name)
        return _marked(own) if distribution_name == "torch" else own

    metadata.version = marked


def _show(files: Path) -> None:
    """Have the facts read these files before this machine's."""

    def of(path: Path) -> Path:
        own = files / path.relative_to("/")
        return own if own.exists() else path

    read_text, entries = facts_files.read_text, facts_files.entries
    shown = {
        "read_text": lambda path: read_text(of(path)),
        "entries": lambda path, pattern: entries(of(path), pattern),
    }
    for module in [m for name, m in sys.modules.items() if name.startswith("hostbench.facts.")]:
        for name in shown.keys() & vars(module).keys():
            setattr(module, name, shown[name])


class _After(importlib.abc.MetaPathFinder):
    """Calls a function on a module once it has been imported."""

    def __init__(self, then: dict[str, Callable[[ModuleType], None]]) -> None:
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        then = self._then.pop(name, None)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if then else None
        if then is None or spec is None or spec.loader is None:
            return None
        loader, run = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            then(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
