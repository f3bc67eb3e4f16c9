"""`hostbench publish`: append what a table at a URL lacks of a results folder."""

import os
import sys
from pathlib import Path

from hostbench.cli.output import show
from hostbench.cli.results import stored_results
from hostbench.core.errors import EXIT_OK, UsageError
from hostbench.core.files import is_url
from hostbench.store.publish import publish


def execute(*, url: str, results: str | None) -> int:
    """Publish, and say how much. Raises as `publish`, UsageError for what is no URL."""
    if not is_url(url):
        folder = Path(url).absolute().as_uri()
        raise UsageError(
            f"{url} is not a URL; name one, as s3://bucket/path, or {folder} for a folder"
        )
    # Beside the error of a full disk, which it raises, threads of the library print a backtrace,
    # some only afterwards (apache/arrow-rs-object-store issue 810). Python's own lines go on;
    # a log of the library does where somebody asks for more of it than hostbench.store.table.
    if sys.stderr and sys.stderr is sys.__stderr__ and os.environ.get("RUST_LOG") == "error":
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sent = publish(stored_results(results), url)
    runs, rows = sum(bool(row.started_at) for row in sent), sum(row.rows for row in sent)
    show(f"{url}: {runs} runs, {len(sent) - runs} other files, {rows} rows appended")
    return EXIT_OK
