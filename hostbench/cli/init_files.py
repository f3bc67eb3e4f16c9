"""What `hostbench init` writes: the texts, each with some lines that explain it at its top."""

import json
from collections.abc import Iterable

_ASV = """\
// How asv and hostbench measure the commits of this project. Results are of the commit that is
// measured; this file, benchmarks/ and %s are those of the working tree.
// %s
{
    "version": 1,
    "project": %s,
    "repo": ".",
    "branches": ["HEAD"],
    // The leading dot makes asv load hostbench's plugin: its own torch, each commit's package.
    "plugins": [".hostbench.asv_env"],
    "environment_type": "hostbench",
    "launch_method": "forkserver",
%s    "benchmark_dir": "benchmarks",
    "env_dir": ".asv/env",
    "results_dir": "results",
    "html_dir": ".asv/html"
}
"""
_AS_IT_IS = "The package needs no build: each commit's files are put on the path as they are."
_BUILT = "pip builds the package of each commit; build_command and install_command say otherwise."
_NO_BUILD = '    "build_command": [],\n    "install_command": [],\n'

_TABLE = """\
# hostbench measures the workloads in this folder, on this machine, by commit: `hostbench run`.
# A workload is a function with @workload that returns the step to be timed. After a change of
# its axes or its name `hostbench sync-benchmarks` tells asv.
[tool.hostbench]
workloads = ["%s"]
"""
_KEY = 'workloads = ["%s"]  # hostbench measures what is in there: `hostbench run`'

RESULTS = """\
# What hostbench and asv measure lies here, a folder for each machine, to be committed: files of
# many machines and commits merge without conflicts. Nobody edits them.
# Not kept in git: journals of runs in progress, which end up in runs/.
*.jsonl
"""
_IGNORE = """\
# asv's working copies and pages, and Python's bytecode: made anew whenever they are needed.
# What is measured goes to %s/, and is kept.
# Written by `hostbench init`.
%s
"""

_STARTUP = '''\
"""A workload of your own: what `import %(name)s` costs. Each commit's package is measured, by the
workloads of the working tree. For another one write a function like this, which builds what it
needs and returns a step that calls your code; only the step is timed.

A launch imports it six times: seconds each where it imports torch, and a run has eight or ten. Then
put in its place what your package does, for that is measured with torch imported already.
"""

import subprocess
import sys
from pathlib import Path

from hostbench import DEVICES, workload


@workload(
    axes={"device": DEVICES},
    host_only=lambda **_: True,  # it enqueues nothing on a GPU
    quick=lambda **_: True,
    version="1",  # another one when the numbers stop being comparable
)
def import_package(device):
    """The import of %(name)s in a new Python. Timed: the process from start to end."""
    import %(name)s  # the code that is measured

    origin = %(name)s.__spec__.origin
    folder = Path(origin).parents[%(depth)d + hasattr(%(name)s, "__path__")]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import %(name)s; "
    code += f"sys.exit(%(name)s.__file__ != {origin!r})"
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)
'''

STEPS = '''\
"""A workload of your own: a step of training. It stands here whole, and this file is always that of
the working tree: move the model into a package of yours and import it in `train`, and each commit's
is measured. Write what else you want to time the same way: only the step that is returned is timed.
"""

from hostbench import DEVICES, Prepared, workload


@workload(
    axes={"device": DEVICES, "num_examples": (32, 256)},
    quick=lambda **_: True,
    version="1",  # another one when the numbers stop being comparable
)
def train(device, num_examples):
    """A step of training on a batch: forward, backward, update. Timed: the step."""
    import torch  # here: commands that measure nothing need not load it

    where = device.torch_device
    torch.manual_seed(0)
    layers = torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    model = torch.nn.Sequential(*layers).to(where)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    examples = torch.randn(num_examples, 256).to(where)
    labels = torch.randint(0, 10, (num_examples,)).to(where)

    def step():
        loss = torch.nn.functional.cross_entropy(model(examples), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    first = step().item()

    def verify():
        last = step().item()
        return None if last < first else f"the loss was {first:.3f}, and is {last:.3f}"

    return Prepared(step=step, verify=verify)


PRELOAD = ("torch._dynamo",)  # an optimizer loads it: once, and not anew for each launch
'''


def asv_config(project: str, folder: str, *, built: bool) -> str:
    """The text of asv.conf.json."""
    why, commands = (_BUILT, "") if built else (_AS_IT_IS, _NO_BUILD)
    return _ASV % (folder, why, json.dumps(project), commands)


def ignore(results: str, names: Iterable[str]) -> str:
    """The text of .gitignore."""
    return _IGNORE % (results, "\n".join(names))


def startup(package: str) -> str:
    """A workload that imports the package."""
    return _STARTUP % {"name": package, "depth": package.count(".")}


def table(folder: str) -> str:
    """Of pyproject.toml."""
    return _TABLE % folder


def key(folder: str) -> str:
    """The line in a table that is there."""
    return _KEY % folder
