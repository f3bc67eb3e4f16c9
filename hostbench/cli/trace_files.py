"""Traces of PyTorch's profiler that somebody names: files, and folders of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from hostbench.cli.output import Reading
from hostbench.core.errors import UsageError
from hostbench.idle.trace import Trace, read_trace

_ENDINGS = (".json", ".json.gz")
_FEW = 3


def read_traces(paths: Sequence[Path]) -> list[Trace]:
    """Each, and of a folder the traces in it. Raises UsageError, DataError."""
    with Reading() as reading:
        return [read_trace(path, reading) for path in list(_files(paths))]


def in_short(traces: Sequence[Trace]) -> str:
    """The names of a few, of more the first and how many others."""
    files = [trace.file for trace in traces]
    return ", ".join(files) if len(files) <= _FEW else f"{files[0]} and {len(files) - 1} others"


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(each for each in path.iterdir() if each.name.endswith(_ENDINGS))
        if not inside:
            raise UsageError(f"{path} has no traces: no file there ends in .json or .json.gz")
        yield from inside
