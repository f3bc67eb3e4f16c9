"""A page of the dashboard run by streamlit's own AppTest, and what it says."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

if TYPE_CHECKING:  # half a second in each test process
    from streamlit.testing.v1 import AppTest

APP = Path(__file__).parent.parent / "dashboard"
LOCAL = [path.stem for path in APP.glob("*.py") if path.stem != "app"]
PAGES = sorted(path.stem for path in APP.glob("views/[!_]*.py"))


@pytest.fixture(autouse=True, scope="module")
def on_the_path() -> Iterator[None]:
    """`streamlit run` puts the script's folder first on sys.path. A module that names this fixture
    has it for its tests. The dashboard has no component of its own: AppTest need not read every
    installed package's metadata for each page."""
    from streamlit.components.v2 import manifest_scanner

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(APP))
        patch.setattr(sys, "argv", ["app.py"])
        patch.setattr(manifest_scanner, "scan_component_manifests", list)
        yield
    for name in LOCAL:
        sys.modules.pop(name, None)


def opened(patch: pytest.MonkeyPatch, page: str, results: Path, **query: str) -> "AppTest":
    """The page over a results folder, with these choices in its address."""
    from streamlit.testing.v1 import AppTest

    patch.setenv("HOSTBENCH_RESULTS", str(results))
    app = AppTest.from_file(str(APP / "app.py"), default_timeout=120)
    for key, value in query.items():
        app.query_params[key.replace("__", "-")] = value
    return app.switch_page(f"views/{page}.py").run()


def said(app: "AppTest") -> str:
    """All text of the page, with the escapes taken away."""
    kinds = (app.markdown, app.caption, app.info, app.error, app.warning, app.subheader, app.code)
    return "\n".join(one.value.replace("\\", "") for kind in kinds for one in kind)


def change_lines(app: "AppTest") -> dict[str, str]:
    """Label, without the escapes -> name of each change that is listed."""
    keys = {own.label.replace("\\", ""): own.key or "" for own in app.button}
    return {label: key[7:] for label, key in keys.items() if key.startswith("change ")}


def charts(app: "AppTest") -> int:
    return len(app.get("arrow_vega_lite_chart")) + len(app.get("vega_lite_chart"))


def tables(app: "AppTest", column: str) -> list[pd.DataFrame]:
    """The tables that have this column."""
    return [one.value for one in app.dataframe if column in one.value]
