"""Run as a script: start another script so that it dies when its parent dies.

asv leaves its servers and setup_cache processes alive when it is killed. Imports no package
`hostbench`: the script under test chooses which one is imported.
"""

import ctypes
import importlib.util
import os
import runpy
import signal
import sys
from pathlib import Path


def drop_editable_finder() -> None:
    """Forget an editable install of hostbench: where an old commit lacks a module, Python would
    silently import the checkout's."""
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if not getattr(finder, "__module__", "").startswith("__editable___hostbench")
    ]


def main() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit("the parent died")
    drop_editable_finder()
    if os.environ.get("HOSTBENCH_PACKAGE"):
        # a project's own, also for benchmarks that know nothing of hostbench
        path = Path(__file__).parent / "core" / "own_package.py"
        spec = importlib.util.spec_from_file_location("own_package_of_the_guard", path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.import_from(module.declared(os.environ))
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
