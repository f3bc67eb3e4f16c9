"""Where a run's files lie, and how a run is named."""

import json
import re
import secrets
from pathlib import Path

from hostbench.clock import stamp
from hostbench.errors import UsageError
from hostbench.journal import SUFFIX

CONFIG = "asv.conf.json"
JOURNALS = ".journals"


def run_id(commit: str | None) -> str:
    """`20261121T120805Z-1a2b3c4d-9f3e`: UTC start, commit, 4 random digits against collisions."""
    return f"{stamp()}-{commit[:8] if commit else 'nogit'}-{secrets.token_hex(2)}"


def journal_path(results: Path, run: str) -> Path:
    return results / JOURNALS / f"{run}{SUFFIX}"


def project_root(start: Path) -> Path | None:
    """The nearest folder from `start` upwards that holds asv.conf.json."""
    return next((d for d in (start, *start.parents) if (d / CONFIG).is_file()), None)


def asv_results(root: Path) -> Path:
    """The results folder that asv.conf.json in `root` names; `results` when it names none.

    Raises UsageError when the file cannot be read.
    """
    path = root / CONFIG
    if not path.is_file():
        return root / "results"
    try:
        text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
        return root / str(json.loads(text).get("results_dir", "results"))
    except (ValueError, AttributeError, OSError) as error:
        raise UsageError(f"cannot read {path}: {error}; mend it") from error
