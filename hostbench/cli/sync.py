"""asv's view of the workloads: literal classes in benchmarks/, written from the registry.

`hostbench init` writes a project's own, scripts/sync-benchmarks those of hostbench.
"""

from pathlib import Path

from hostbench.cli.output import show
from hostbench.core.asv_names import class_name
from hostbench.core.errors import UsageError
from hostbench.core.files import write_atomic
from hostbench.families import load, names, of_project
from hostbench.measure.workload import Workload
from hostbench.runner.places import asv_benchmarks, project_root
from hostbench.vcs.repo import is_ours

_MAX_LINE = 100
_MARK = "asv's view of the family"
"""In each file that is ours to write."""

_HEAD = '''\
"""asv's view of the family `{family}`, written by hostbench from its workloads.

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


def main() -> int:
    """Write the files that differ, of the project of the working directory."""
    root = project_root(Path.cwd())
    if root is None:
        raise UsageError("no asv.conf.json here or above: run this inside the checkout")
    for path, text in outdated(root).items():
        write_atomic(path, text.encode())
        show(f"wrote: {path.relative_to(root)}")
    return 0


def outdated(root: Path) -> dict[Path, str]:
    """The files of asv's benchmarks that are lacking or differ, as they should be. In a project of
    one's own they are of its families alone: hostbench's are no code of its commits.

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
    texts = {} if first.is_file() else {first: ""}  # asv needs one, whatever it holds
    for family in families:
        path = folder / f"{family}.py"
        old = path.read_text() if path.is_file() else None
        if old is not None and _MARK not in old:
            raise UsageError(f"{path} is none of hostbench's: rename it or the family {family!r}")
        text = source(family, load((family,)))
        if text != old:
            texts[path] = text
    return texts


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
