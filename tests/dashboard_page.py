"""A page of the dashboard run by streamlit's own AppTest, and what it says."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from hostbench.judge.grid import Along
from hostbench.report import judging
from hostbench.store.history import History

ALONG: dict[str, Along] = {"committed_at": "commit", "started_at": "run-time"}
JUDGED = ("status", "series", "changes", "trend")
FOLDED = (
    "days",
    "every case",
    "its events",
    "the changes",
    "the facts",
    "the markdown",
    "the points",
    "the proofs",
)
"""Keys of the boxes that are filled when they are opened."""
APP = Path(__file__).parent.parent / "dashboard"
LOCAL = [path.stem for path in APP.glob("*.py") if path.stem not in ("app", "__init__")]


@pytest.fixture(autouse=True, scope="module")
def on_the_path() -> Iterator[None]:
    """`streamlit run` puts the script's folder first on sys.path. A module that names this fixture
    has it for its tests. The dashboard has no component of its own: AppTest need not read every
    installed package's metadata for each page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(APP))
        patch.setattr(sys, "argv", ["app.py"])
        patch.setattr(manifest_scanner, "scan_component_manifests", list)
        yield
    for name in LOCAL:
        sys.modules.pop(name, None)


def opened(
    patch: pytest.MonkeyPatch,
    page: str,
    results: Path,
    unfolded: Sequence[str] = FOLDED,
    **query: str,
) -> AppTest:
    """The page over a results folder, with these filters in its URL and these boxes open."""
    patch.setenv("HOSTBENCH_RESULTS", str(results))
    if page in JUDGED and results.is_dir():
        judged(results)
    app = AppTest.from_file(str(APP / "app.py"), default_timeout=30)
    for key, value in query.items():
        app.query_params[key] = value
    for key in unfolded:
        app.session_state[key] = True
    return app.switch_page(f"views/{page}.py").run()


def judged(results: Path) -> None:
    """As the process does it that a page starts: nothing to do where nothing has changed."""
    for axis in ALONG.values():
        sets = judging.KeptSets.of(History(results), axis)
        judging.main(str(results), axis, str(sets.folder))


def said(app: AppTest) -> str:
    """All Markdown of the page, with the escapes taken away."""
    kinds = (app.markdown, app.caption, app.info, app.error, app.warning, app.subheader)
    return "\n".join(one.value.replace("\\", "") for kind in kinds for one in kind)
