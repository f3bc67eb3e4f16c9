"""What the first page needs is imported and read while the browser still loads Streamlit's own
files. A page that comes before that is done waits for it, as for another page."""

import gc
from contextlib import suppress

import data
import judging
import parts  # noqa: F401 - what each page imports
import stored

from hostbench.core.errors import HostbenchError
from hostbench.judge.grid import Along
from hostbench.report.judged_table import NotJudgedError

AXIS: Along = "commit"
"""Of the first page, Status."""


def read() -> None:
    """What is wrong is said by the page. What is there by then is never garbage: it is not searched
    for garbage after each page."""
    with suppress(HostbenchError, NotJudgedError, OSError):
        data.has_own()
        folder = stored.results_folder()
        judging.caused(folder, AXIS, judging.judged_table(folder, AXIS))
    stored.end()
    gc.collect()
    gc.freeze()
