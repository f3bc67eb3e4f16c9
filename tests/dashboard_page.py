"""A page of the dashboard run by streamlit's own AppTest, and what it says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

APP = Path(__file__).parent.parent / "dashboard"
LOCAL = [path.stem for path in APP.glob("*.py") if path.stem not in ("app", "__init__")]


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`streamlit run` puts the script's folder first on sys.path. A module that names this fixture
    has it for each of its tests."""
    monkeypatch.syspath_prepend(str(APP))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    yield
    for name in LOCAL:
        sys.modules.pop(name, None)


def opened(patch: pytest.MonkeyPatch, page: str, results: Path, **query: str) -> AppTest:
    """The page over a results folder, with these filters in its URL."""
    patch.setenv("HOSTBENCH_RESULTS", str(results))
    app = AppTest.from_file(str(APP / "app.py"), default_timeout=30)
    for key, value in query.items():
        app.query_params[key] = value
    return app.switch_page(f"views/{page}.py").run()


def said(app: AppTest) -> str:
    """All Markdown of the page, with the escapes taken away."""
    kinds = (app.markdown, app.caption, app.info, app.error, app.warning, app.subheader)
    return "\n".join(one.value.replace("\\", "") for kind in kinds for one in kind)
