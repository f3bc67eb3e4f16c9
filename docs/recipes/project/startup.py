"""A workload of your own: what `import PACKAGE` costs. Each commit's package is measured, by the
workloads of the working tree. For another one write a function like this, which builds what it
needs and returns a step that calls your code; only the step is timed.

A launch imports it six times: seconds each where it imports torch, and a run has eight or ten. Then
put in its place what your package does, for that is measured with torch imported already.
"""

import subprocess
import sys
from pathlib import Path

from hostbench import DEVICES, suite, workload


def setup_cache():
    """asv calls it: the cases of this file are measured together."""
    return suite.measure("startup")


@workload(
    axes={"device": DEVICES},
    host_only=lambda **_: True,  # it enqueues nothing on a GPU
    quick=lambda **_: True,
    version="1",  # another one when the numbers stop being comparable
)
def import_package(device):
    """The import of PACKAGE in a new Python. Timed: the process from start to end."""
    import PACKAGE  # the code that is measured

    origin = PACKAGE.__spec__.origin
    folder = Path(origin).parents[PACKAGE.__name__.count(".") + hasattr(PACKAGE, "__path__")]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import PACKAGE; "
    code += f"sys.exit(PACKAGE.__file__ != {origin!r})"
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)
