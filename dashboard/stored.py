"""The results folder as the pages see it: one and the same while a page is drawn.

What is kept from one visit to the next is kept here, in data.py and in judging.py, and nowhere
else.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pandas as pd
import pyarrow
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from hostbench.core.errors import UsageError
from hostbench.core.files import is_url
from hostbench.store.history import History
from hostbench.store.table import remote

_SEEN = "signatures of the folders"
_DRAWN = "when the page was drawn"
OLD_AFTER_S = 600.0
WRITTEN = (".json", ".jsonl", ".toml")
"""Files that are written more than once."""
Place: TypeAlias = Path | str
"""A results folder, or the URL of a table."""
Said: TypeAlias = tuple[Hashable, ...]
Drawn = TypeVar("Drawn")
MANY, LOOK_S = 1000, 1.0
"""A look at more than MANY files counts for LOOK_S for each thousand of them."""
_looks: dict[Path, tuple[float, int]] = {}
"""Results folder -> until when its last look counts, and what was seen."""


def results_folder() -> Place:
    """`-- --results DIR`, else HOSTBENCH_RESULTS, else ./results; the URL of a table as it is."""
    named = _options().results or os.environ.get("HOSTBENCH_RESULTS") or "results"
    return place_of(named)


def place_of(named: str) -> Place:
    return named if is_url(named) else Path(named)


def _options() -> argparse.Namespace:
    """Of the command line: what follows `--`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--results")
    parser.add_argument("--allow-triage", action="store_true")
    return parser.parse_known_args(sys.argv[1:])[0]


def allows_triage(folder: Place) -> bool:
    """Whether the pages may write what people say of events: only where the server was started with
    --allow-triage, and not into a table at a URL."""
    return bool(_options().allow_triage) and isinstance(folder, Path)


def begin() -> None:
    """Before a page is drawn: it shows the files as they are now, all of it the same ones."""
    st.session_state[_SEEN] = {}
    st.session_state[_DRAWN] = time.monotonic()


def end() -> None:
    """After what was read: memory that Arrow keeps for its next read goes back to the system."""
    pyarrow.default_memory_pool().release_unused()


def signature(folder: Place) -> int:
    """Changes whenever a stored file comes, goes or is written, or something is published; looked
    at once for each time that a page is drawn, and outside of a page each time."""
    is_page = get_script_run_ctx(suppress_warning=True) is not None
    seen: dict[str, int] | None = st.session_state.get(_SEEN) if is_page else None
    if seen is None:
        return _looked_at(folder)
    if str(folder) not in seen:
        seen[str(folder)] = _looked_at(folder)
    return seen[str(folder)]


def is_outdated(folder: Place) -> bool:
    """Whether a stored file has come, gone or been written since the page was drawn, or that is so
    long ago that ages on it are. A table at a URL that does not answer has not changed."""
    if time.monotonic() - st.session_state.get(_DRAWN, 0.0) > OLD_AFTER_S:
        return True
    seen: dict[str, int] = st.session_state.get(_SEEN, {})
    with suppress(UsageError):
        return _looked_at(folder) != seen.get(str(folder))
    return False


def _looked_at(folder: Place) -> int:
    """Where there are more than MANY files, as they were at the last look that counts."""
    if isinstance(folder, str):
        return remote.version(folder)
    at = time.monotonic()
    until, seen = _looks.get(folder, (0.0, 0))
    if at >= until:
        files = _files(folder)
        seen = hash(tuple(sorted(files)))
        counts_s = LOOK_S * len(files) / 1000 if len(files) > MANY else 0.0
        _looks[folder] = at + counts_s, seen
    return seen


def look_again(folder: Place) -> None:
    """What was seen is known to be old: the next page looks."""
    if isinstance(folder, Path):
        _looks.pop(folder, None)


def _files(folder: Path) -> list[tuple[str, int, int]]:
    """Folders, and files that may be written again, with size and time: an archive never is, and
    its folder tells that one has come or gone."""
    found: list[tuple[str, int, int]] = []
    left = [str(folder)]
    while left:
        with suppress(OSError):  # gone meanwhile
            place = left.pop()
            found.append((place, 0, Path(place).stat().st_mtime_ns))
            for entry in os.scandir(place):
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif entry.name.endswith(WRITTEN):
                    stat = entry.stat()
                    found.append((entry.path, stat.st_size, stat.st_mtime_ns))
    return found


@st.cache_resource(max_entries=4, show_spinner=False)
def history(folder: str, signature: int) -> History:
    return History(place_of(folder))


def warnings(folder: Place) -> list[str]:
    """What could not be read, and why."""
    return list(history(str(folder), signature(folder)).warnings)


def asked(folder: Place, query: str, *about: Any) -> pd.DataFrame:
    """What a query of History gives, kept while no stored file has changed."""
    return kept(str(folder), signature(folder), query, *about)


@st.cache_data(max_entries=64, show_spinner=False)
def kept(folder: str, signature: int, query: str, *about: Any) -> pd.DataFrame:
    rows: pd.DataFrame = getattr(history(folder, signature), query)(*about)
    return rows


def now(folder: Place) -> Said:
    """Changes with the stored files."""
    return str(folder), signature(folder)


@st.cache_resource(max_entries=16, show_spinner=False)
def drawn(said: Said, asked: tuple[Hashable, ...], _made: Callable[[], Drawn]) -> Drawn:
    """What `_made` makes of what is stored, or of what was judged, kept while that is the same
    (`now`, judging.said_now); `asked` names it, and all that it depends on besides. Shared, so
    only read it."""
    return _made()
