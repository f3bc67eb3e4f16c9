"""Where a run's files lie, and how a run is named."""

import importlib
import importlib.util
import json
import re
import secrets
from pathlib import Path
from typing import Any

from hostbench.core.clock import stamp
from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored

CONFIG = "asv.conf.json"
JOURNALS = ".journals"
SUFFIX = ".journal.jsonl"


def run_id(commit: str | None, at: str | None = None, digits: str | None = None) -> str:
    """`20261121T120805Z-1a2b3c4d-9f3e`: UTC start (`at` or now), commit, 4 digits (or random ones)
    against collisions."""
    return f"{stamp(at)}-{commit_digits(commit)}-{digits or secrets.token_hex(2)}"


def commit_digits(commit: str | None) -> str:
    """How a run's id names its commit."""
    return commit[:8] if commit else "nogit"


def journal_path(results: Path, run: str) -> Path:
    return results / JOURNALS / f"{run}{SUFFIX}"


def project_root(start: Path) -> Path | None:
    """The nearest folder from `start` upwards that holds asv.conf.json."""
    return next((d for d in (start, *start.parents) if (d / CONFIG).is_file()), None)


def asv_results(root: Path) -> Path:
    """The results folder that asv.conf.json in `root` names; `results` when it names none.

    Raises UsageError when the file cannot be read.
    """
    return _folder(root, "results_dir", "results")


def asv_benchmarks(root: Path) -> Path:
    """The same of the folder of asv's benchmarks."""
    return _folder(root, "benchmark_dir", "benchmarks")


def _folder(root: Path, key: str, usual: str) -> Path:
    path = root / CONFIG
    if not path.is_file():
        return root / usual
    try:
        named = _parse(read_stored(path).decode()).get(key, usual)
        if not isinstance(named, str):
            raise ValueError(f"{key} is {named!r:.60}, no text")
    except (ValueError, AttributeError, OSError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {error}; mend it") from error
    return root / named


_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])")


def _parse(text: str) -> Any:
    """JSON with comments and trailing commas; all of JSON5, as asv reads it, where asv is there."""
    plain = _LAST_COMMA.sub(r"\1", _COMMENT.sub(r"\1", text))
    try:
        return json.loads(plain)
    except ValueError:
        if importlib.util.find_spec("json5") is None:
            raise
        return importlib.import_module("json5").loads(text)
