"""Traces of PyTorch's profiler that somebody names: files, and folders of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from hostbench.cli.output import Reading, warn
from hostbench.core.errors import DataError, UsageError
from hostbench.idle.trace import Trace, read_trace

_ENDINGS = (".json", ".json.gz")
_FEW = 3


def read_traces(paths: Sequence[Path]) -> list[Trace]:
    """Each once, and of a folder the traces in it: another file there is named in a warning, and
    left out. Raises UsageError, DataError."""
    traces: list[Trace] = []
    seen: set[Path] = set()
    with Reading() as reading:
        for path, is_named in list(_files(paths)):
            if path.resolve() in seen:
                warn(f"{path} is named twice: it is read once")
                continue
            seen.add(path.resolve())
            try:
                traces.append(read_trace(path, reading))
            except DataError as error:
                if is_named:
                    raise
                warn(f"left out: {error}")
    if not traces:
        raise DataError(f"no trace of PyTorch's profiler is in {paths[0]}")
    return traces


def in_short(traces: Sequence[Trace]) -> str:
    """The names of a few, of more the first and how many others."""
    files = [trace.file for trace in traces]
    return ", ".join(files) if len(files) <= _FEW else f"{files[0]} and {len(files) - 1} others"


def looks_like_one(word: str) -> bool:
    """A word where a command is meant."""
    return word.endswith(_ENDINGS) or Path(word).is_dir()


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Each file, and whether it was named."""
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        inside = sorted(each for each in path.iterdir() if each.name.endswith(_ENDINGS))
        if not inside:
            raise UsageError(f"{path} has no traces: no file there ends in .json or .json.gz")
        yield from ((each, False) for each in inside)
