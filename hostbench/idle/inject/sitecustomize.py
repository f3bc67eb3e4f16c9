"""Python imports this when it starts, where `hostbench idle` started it or one of its parents: a
recorder waits for torch. The script, its arguments, its `__main__` and its exit code stay its own.

The `sitecustomize` that would have been imported otherwise is imported all the same. This runs in
the script's environment, which may have nothing but torch.
"""

import importlib
import sys
from contextlib import suppress
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = str(_HERE.parents[2])


def _start() -> None:
    sys.path.insert(0, _ROOT)
    try:
        recording = importlib.import_module("hostbench.idle.recording")
    finally:
        sys.path.remove(_ROOT)
    recording.wait_for_torch()


def _go_on() -> None:
    """With what this module stands in front of."""
    sys.path[:] = [entry for entry in sys.path if Path(entry) != _HERE]
    ours = sys.modules.pop("sitecustomize", None)
    with suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    if ours is not None:
        sys.modules.setdefault("sitecustomize", ours)


_start()
_go_on()
