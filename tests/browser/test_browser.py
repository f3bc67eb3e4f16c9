"""The dashboard in headless Chromium, started as `hostbench dashboard` starts it."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from hostbench.report.page import page as page_of
from hostbench.report.write import write
from hostbench.store.results import Results
from tests.commands import free_port
from tests.fakes import histories

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync")
CHART = "[data-testid=stVegaLiteChart]"
MARK = f"{CHART} .mark-symbol.role-mark path"
LANE = f"{CHART} .mark-rect.role-mark path"
AT_REST = "[data-testid=stApp][data-test-script-state=notRunning]"
# Streamlit asks for these below each page's own path, too, and goes on without them.
KNOWN_404 = ("_stcore/health", "_stcore/host-config")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SLOWER = "transfer.host_to_device"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    story = {
        "seed": 3,
        "commits": 40,
        "series": 12,
        "machine": [{"name": f"simulated-{name}", "sigma": 0.004} for name in "ab"],
        "event": [{"kind": "code", "at": 25, "effect": 0.12, "series": SLOWER}],
    }
    return histories.write(tmp_path_factory.mktemp("history"), story)


@pytest.fixture(scope="module")
def address(results: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "hostbench", "dashboard", "--headless", "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--results", str(results)],
        cwd=ROOT,
        env={**os.environ, "STREAMLIT_SERVER_ADDRESS": "127.0.0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while not _answers(f"http://127.0.0.1:{port}/_stcore/health"):
            assert server.poll() is None, f"the server ended with {server.returncode}"
            assert time.monotonic() < deadline, "the dashboard did not answer within 120 s"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=60)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
        return True
    return False


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A dark page; an error in its console, or a request that leaves the machine, fails."""
    errors: list[str] = []
    tab = browser.new_context(viewport=WIDE, color_scheme="dark").new_page()
    tab.set_default_timeout(120_000)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.extend(_error(message)))
    tab.on("request", lambda request: errors.extend(_leaves(request.url)))
    yield tab
    assert not errors


def _error(message: Any) -> list[str]:
    url = message.location.get("url", "")
    return [] if message.type != "error" or url.endswith(KNOWN_404) else [f"{message.text} {url}"]


def _leaves(url: str) -> list[str]:
    parts = urlsplit(url)
    here = parts.scheme in ("data", "blob", "about") or parts.hostname == "127.0.0.1"
    return [] if here else [f"asks {url}"]


def _query(tab: Any) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(tab.url).query).items()}


def is_drawn(tab: Any, title: str) -> None:
    """The page with its first chart, and it fits a telephone."""
    tab.get_by_role("heading", name=title, exact=True).wait_for()
    tab.locator(AT_REST).wait_for(state="attached")
    tab.locator(f"{CHART} svg").first.wait_for(state="attached")
    assert tab.get_by_test_id("stException").count() == 0
    tab.set_viewport_size(NARROW)
    fits = "document.querySelector('[data-testid=stMain]').scrollWidth <= window.innerWidth"
    tab.wait_for_function(f"window.innerWidth === {NARROW['width']} && {fits}")
    tab.set_viewport_size(WIDE)
    tab.wait_for_function(f"window.innerWidth === {WIDE['width']}")


def leads_to(tab: Any, path: str, act: Callable[[], None], query: str = "") -> None:
    """Clicks or drags until that page is there, with that in its query: what is still being drawn
    takes neither. A click too early is repeated late: a second one would be another visit."""

    def is_there() -> bool:
        return urlsplit(tab.url).path.endswith(path) and (not query or query in _query(tab))

    deadline = time.monotonic() + 120
    while not is_there():
        assert time.monotonic() < deadline, f"{tab.url} is still shown"
        act()
        for _ in range(300):
            if not is_there():
                tab.wait_for_timeout(100)


def drag(tab: Any) -> None:
    """Over the middle of the first chart, as it lies now."""
    box = tab.locator(CHART).first.bounding_box()
    y = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + 400, y)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 700, y, steps=8)
    tab.mouse.up()


def test_a_walk_through_all_pages(tab: Any, address: str) -> None:
    """From a change on the overview to its trend, what it compares with, its run and its curve; on
    the way, back leads to what was left by a click and by a link."""
    tab.goto(f"{address}/?{urlencode({'machine': 'simulated-b'})}")
    is_drawn(tab, "Overview")
    color = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    assert tab.evaluate(color) != "rgb(255, 255, 255)"
    change = tab.get_by_test_id("stButton").filter(has_text="%").first
    leads_to(tab, "/changes", lambda: change.click(position={"x": 80, "y": 10}))  # its text
    is_drawn(tab, "Changes")
    assert _query(tab)["change"] and _query(tab)["machine"] == "simulated-b"
    tab.get_by_role("link", name="Compare", exact=True).click()
    is_drawn(tab, "Compare")
    assert _query(tab).get("machine") == "simulated-b" and "change" not in _query(tab)
    tab.locator(LANE).first.click(position={"x": 30, "y": 8})  # on its name
    tab.get_by_role("button", name="back to all workloads").wait_for()
    left = _query(tab)
    lane = tab.locator(LANE).first
    leads_to(tab, "/trend", lambda: lane.click(position={"x": 30, "y": 8}))
    is_drawn(tab, "Trend")
    tab.go_back()
    is_drawn(tab, "Compare")
    tab.get_by_role("button", name="back to all workloads").wait_for()
    assert _query(tab) == left
    leads_to(tab, "/trend", lambda: lane.click(position={"x": 30, "y": 8}))
    is_drawn(tab, "Trend")
    assert _query(tab)["machine"] == "simulated-b" and _query(tab)["case"].startswith(left["of"])

    tab.locator(AT_REST).wait_for(state="attached")
    tab.locator(MARK).first.wait_for()
    leads_to(tab, "/trend", lambda: drag(tab), "days")
    tab.get_by_role("button", name="All days").wait_for()
    assert "days" in _query(tab)
    tab.locator(AT_REST).wait_for(state="attached")
    leads_to(tab, "/runs", lambda: tab.locator(MARK).nth(5).click(force=True))
    is_drawn(tab, "Runs and machines")
    assert _query(tab)["of"].endswith("@simulated-b") and "days" not in _query(tab)
    leads_to(tab, "/runs", tab.get_by_role("radio", name="every run").click, "show")
    tab.get_by_test_id("stDataFrame").wait_for()
    left = _query(tab)
    tab.locator(AT_REST).wait_for(state="attached")
    tab.get_by_role("link", name="Curves", exact=True).click()
    is_drawn(tab, "Curves")
    tab.go_back()
    is_drawn(tab, "Runs and machines")
    tab.get_by_role("radio", name="every run", checked=True).wait_for()
    assert _query(tab) == left


def test_the_static_report_opens_alone_on_a_dark_telephone(
    browser: Any, results: Path, tmp_path: Path
) -> None:
    """It asks for nothing, fits the screen, and its charts are as light as its text."""
    history = Results(results)
    run = history.runs()[-1]
    file = tmp_path / "report.html"
    file.write_text(
        write(page_of(history.rows(run.machine, [run.run_id]), history.run(run)), "html")
    )
    page = browser.new_context(viewport=NARROW, color_scheme="dark").new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert asked == [file.as_uri()]
    assert "nothing here was measured" in page.locator("h2").first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    text = page.locator("figure .role-axis-label text").first
    color = "element => [getComputedStyle(element).fill, getComputedStyle(document.body).color]"
    assert len(set(text.evaluate(color))) == 1
