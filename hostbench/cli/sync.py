"""`hostbench sync-benchmarks`: write the literal asv classes of benchmarks/ from the registry."""

import sys
from dataclasses import dataclass
from pathlib import Path

from hostbench.core.asv_names import class_name
from hostbench.core.errors import EXIT_OK, EXIT_USAGE, UsageError
from hostbench.core.files import write_atomic
from hostbench.families import load, names, of_project
from hostbench.measure.workload import Workload
from hostbench.runner.places import asv_benchmarks, project_root
from hostbench.vcs.repo import is_ours

_MAX_LINE = 100
_BY = "written by `hostbench sync-benchmarks`"

_HEAD = '''\
"""asv's view of the family `{family}`, written by `hostbench sync-benchmarks`.

The literals stay literal: asv runs these classes from HEAD against the code of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("{family}")
'''

_CLASS = '''

class {class_name}(suite.Suite):
    """{question}"""

    workload = "{name}"
    version = "{version}"
{names}
    params = (
{params}
    )
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    check: bool


def execute(options: SyncOptions) -> int:
    """Write the files that differ, or with --check only name them (exit code 2)."""
    root = project_root(Path.cwd())
    if root is None:
        raise UsageError("no asv.conf.json here or above; run this inside the checkout")
    stale = {path: text for path, text in wanted(root).items() if _differs(path, text)}
    for path, text in stale.items():
        if not options.check:
            write_atomic(path, text.encode())
        print(
            f"{'differs from the registry' if options.check else 'wrote'}: {path.relative_to(root)}"
        )
    if stale and options.check:
        print("run `hostbench sync-benchmarks`", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_OK


def wanted(root: Path) -> dict[Path, str]:
    """What the folder of asv's benchmarks should hold. In a project of one's own that is the
    project's families alone: hostbench's are no code of its commits.

    Raises UsageError where it has none, or another file by that name.
    """
    folder = asv_benchmarks(root)
    families = names() if is_ours(root) else of_project()
    if not families:
        raise UsageError(
            "this project has no workloads of its own: name their folder in its pyproject.toml, "
            '[tool.hostbench] workloads = ["bench/"]'
        )
    first = folder / "__init__.py"
    files = {} if first.is_file() else {first: ""}  # asv needs one, whatever it holds
    for family in families:
        path = folder / f"{family}.py"
        if path.is_file() and _BY not in path.read_text():
            raise UsageError(f"{path} is not {_BY}: rename that file or the family {family!r}")
        files[path] = source(family, load((family,)))
    return files


def _differs(path: Path, text: str) -> bool:
    return not path.is_file() or path.read_text() != text


def source(family: str, workloads: dict[str, Workload]) -> str:
    """The text of benchmarks/<family>.py."""
    return _HEAD.format(family=family) + "".join(map(_class, workloads.values()))


def _class(work: Workload) -> str:
    return _CLASS.format(
        class_name=class_name(work.name),
        question=work.question,
        name=work.name,
        version=work.version,
        names=_lines(tuple(work.axes), "    param_names = ", ""),
        params="\n".join(_lines(values, " " * 8, ",") for values in work.axes.values()),
    )


def _lines(values: tuple[object, ...], before: str, after: str) -> str:
    """As ruff formats it: on one line where it fits, else one value a line."""
    line = f"{before}{_literal(values)}{after}"
    if len(line) <= _MAX_LINE:
        return line
    indent = " " * (len(before) - len(before.lstrip()))
    inner = "".join(f"{indent}    {_literal((value,))[1:-2]},\n" for value in values)
    return f"{before}(\n{inner}{indent}){after}"


def _literal(values: tuple[object, ...]) -> str:
    inner = ", ".join(f'"{value}"' if isinstance(value, str) else repr(value) for value in values)
    return f"({inner},)" if len(values) == 1 else f"({inner})"
