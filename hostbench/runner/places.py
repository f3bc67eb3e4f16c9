"""Where a run's files lie, and how a run is named."""

import secrets
from pathlib import Path

from hostbench.core.asv_config import CONFIG as CONFIG
from hostbench.core.asv_config import project_root as project_root
from hostbench.core.asv_config import text_of
from hostbench.core.clock import stamp

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


def asv_results(root: Path) -> Path:
    """The results folder that asv.conf.json in `root` names; `results` when it names none.

    Raises UsageError when the file cannot be read.
    """
    return root / text_of(root, "results_dir", "results")
