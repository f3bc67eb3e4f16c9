"""The dashboard in headless Chromium, started as `hostbench dashboard` starts it."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from tests import dashboard_tree, own_project
from tests.dashboard_tree import CHANGED_MACHINE, CPU_MACHINE, FOREIGN, GPU_MACHINE, HOSTILE, TREND
from tests.scratch import Scratch

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync")
CHART = "[data-testid=stVegaLiteChart] .mark-symbol.role-mark path"
BAR = "[data-testid=stVegaLiteChart] .mark-rect.role-mark path"
# Streamlit asks for these below each page's own path, too, and goes on without them.
KNOWN_404 = ("_stcore/health", "_stcore/host-config")
_FITS = "document.querySelector('[data-testid=stMain]').scrollWidth <= 390"
WIDE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    results = dashboard_tree.write(tmp_path_factory.mktemp("results"))
    history = dashboard_tree.write_changes(tmp_path_factory.mktemp("history"))
    shutil.copytree(history / CHANGED_MACHINE, results / CHANGED_MACHINE)
    with started(ROOT, "--results", str(results)) as shown:
        yield shown


@contextlib.contextmanager
def started(folder: Path, *words: str) -> Iterator[str]:
    """The address of `hostbench dashboard`, run in this folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "hostbench", "dashboard", "--headless", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, *command, *words],
        cwd=folder,
        env={**os.environ, "STREAMLIT_SERVER_ADDRESS": "127.0.0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait_for(health: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    pytest.fail("the dashboard did not answer within 60 s")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium.new_context(viewport=WIDE)
        chromium.close()


@pytest.fixture(scope="module")
def tab(browser: Any) -> tuple[Any, list[str]]:
    """One for all tests, whose process has read the page's scripts, and the errors in its console.
    A new tab costs another process and a second of its time."""
    tab = browser.new_page()
    tab.set_default_timeout(60_000)
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("dialog", lambda dialog: errors.append(f"dialog {dialog.message}"))
    tab.on("console", lambda message: errors.extend(_error(message)))
    return tab, errors


@pytest.fixture
def page(tab: tuple[Any, list[str]]) -> Iterator[Any]:
    """The tab, as wide as it was; an error in the console fails."""
    page, errors = tab
    errors.clear()
    page.set_viewport_size(WIDE)
    yield page
    page.goto("about:blank")  # what the test has opened asks its server nothing more
    assert not errors


def _error(message: Any) -> list[str]:
    url = message.location.get("url", "")
    if message.type != "error" or url.endswith(KNOWN_404):
        return []
    return [f"{message.text} {url}"]


def _query(tab: Any) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(tab.url).query).items()}


def is_drawn(page: Any, title: str, *marks: str) -> None:
    page.get_by_role("heading", name=title).wait_for()
    for mark in marks:
        page.locator(mark).first.wait_for(state="attached")
    assert page.get_by_test_id("stException").count() == 0


def fits_a_telephone(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("innerWidth == 390")
    page.get_by_role("button", name="CSV").last.wait_for()
    page.wait_for_function(_FITS)


def test_a_family_with_points_bars_and_tables_is_drawn_and_saved(
    page: Any, address: str, tmp_path: Path
) -> None:
    """AppTest draws the other families."""
    page.goto(f"{address}/family?family=overlap&machine={GPU_MACHINE}")
    page.get_by_text("Without a valid number").first.wait_for()
    is_drawn(page, "What one family says", CHART, BAR)
    with page.expect_download() as csv:
        page.get_by_test_id("stDownloadButton").get_by_role("button").last.click()
    assert csv.value.suggested_filename == "overlap.csv"
    csv.value.save_as(tmp_path / "overlap.csv")
    lines = (tmp_path / "overlap.csv").read_text().splitlines()
    assert lines[0].startswith("machine,hardware,device,commit")
    planned = dashboard_tree.gpu_run(8).header.planned
    assert len(lines) == 1 + sum(case.startswith("overlap.") for case in planned)

    page.get_by_test_id("stVegaLiteChart").first.hover()
    with page.expect_download() as png:
        page.get_by_role("button", name="Download as PNG").first.click()
    png.value.save_as(tmp_path / "overlap.png")
    assert (tmp_path / "overlap.png").read_bytes().startswith(b"\x89PNG")
    fits_a_telephone(page)


def test_a_trend_is_drawn_and_its_view_is_in_the_url(page: Any, address: str) -> None:
    before = page.evaluate("history.length")
    page.goto(f"{address}/trend?machine={GPU_MACHINE}&case={quote(TREND)}")
    page.locator(CHART).first.wait_for(state="attached")
    page.get_by_text("commit date", exact=True).click()
    page.wait_for_url("**axis=commit*")
    assert page.evaluate("history.length") == before + 2  # the address, the choice
    page.get_by_text("GB/s", exact=True).click()
    page.wait_for_url("**unit=GB*")
    chosen = {"machine": GPU_MACHINE, "case": TREND, "axis": "commit date", "unit": "GB/s"}
    assert chosen.items() <= _query(page).items()

    page.reload()
    page.get_by_role("radio", name="GB/s", checked=True).wait_for()
    page.get_by_role("radio", name="commit date", checked=True).wait_for()
    assert chosen.items() <= _query(page).items()

    page.get_by_text("seconds", exact=True).click()
    page.wait_for_url("**unit=seconds*")
    page.go_back()
    page.get_by_role("radio", name="GB/s", checked=True).wait_for()
    page.get_by_text("Every point").first.wait_for()
    is_drawn(page, "Trend", CHART)
    page.locator(CHART).last.click(force=True)
    page.get_by_role("link", name="this run: facts, proofs").click()
    page.get_by_role("heading", name="Run 2026").wait_for()
    page.go_back()
    is_drawn(page, "Trend", CHART)
    fits_a_telephone(page)


def test_the_status_leads_to_a_change_and_the_questions_to_a_family(
    page: Any, address: str
) -> None:
    """On the first screen: what fails, every workload on every machine, the top causes."""
    page.goto(address)
    page.get_by_text("1 cause fails on 1 machine").wait_for()
    is_drawn(page, "Status", "[data-testid=stVegaLiteChart] .mark-rect path")
    assert page.title() == "Status · hostbench"
    below = page.get_by_role("heading", name="Machines").bounding_box()
    top = page.get_by_test_id("stDataFrame").first.bounding_box()
    assert below["y"] < 1100 and top["y"] + top["height"] < 900
    page.get_by_role("link", name="1 fail now").click()
    page.wait_for_url("**/changes?state=fails*")
    page.go_back()
    is_drawn(page, "Status")
    fits_a_telephone(page)
    page.set_viewport_size(WIDE)
    page.goto(f"{address}/understand?machine={CPU_MACHINE}")
    rows = page.get_by_test_id("stDataFrame").first
    rows.wait_for()
    rows.click(position={"x": 16, "y": 52})
    page.wait_for_url("**/family?*")
    chosen = _query(page)
    assert (chosen["machine"], chosen["run"][:8]) == (CPU_MACHINE, "20261101")
    assert page.locator("a[href*=javascript]").count() == 0
    page.get_by_role("link", name="Trend").click()
    page.get_by_role("heading", name="Trend", exact=True).wait_for()
    page.wait_for_url("**/trend")


@pytest.fixture(scope="module")
def own_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a project of one's own, whose results somebody has read elsewhere before."""
    project = own_project.make(tmp_path_factory.mktemp("own"))
    done = project.hostbench("run", "copies", "--quick", "--device", "simulated")
    assert done.returncode == 0, done.stdout
    elsewhere = Scratch(project.home, project.home)
    assert elsewhere.hostbench("changes", "--results", str(project.results)).returncode == 3
    with started(project.root) as shown:
        yield shown


def test_a_project_of_ones_own_sees_its_families(page: Any, own_address: str) -> None:
    page.goto(own_address)
    page.get_by_text("Nothing is judged yet").wait_for()
    page.get_by_role("link", name="Families").click()
    drawn = page.locator("[data-testid=stVegaLiteChart] .role-mark path")
    drawn.first.wait_for(state="attached")
    assert page.get_by_text("which is not here").count() == 0


def test_a_change_leads_to_its_evidence_and_its_trend(page: Any, address: str) -> None:
    """From something moved to what, where, since when and why: a row, a link, a point."""
    page.goto(f"{address}/changes")
    rows = page.get_by_test_id("stDataFrame").first
    rows.wait_for()
    page.wait_for_timeout(300)
    rows.click(position={"x": 16, "y": 52})
    page.get_by_role("heading", name="commit f054cbad: +10.0% fails now").wait_for()
    page.wait_for_url("**/changes?change=*")
    is_drawn(page, "Changes", CHART)
    page.get_by_role("link", name="all of this series in Trend").click()
    is_drawn(page, "Trend", CHART)
    assert _query(page)["case"].startswith("transfer.host_to_device[")
    page.go_back()
    page.get_by_role("heading", name="commit f054cbad: +10.0% fails now").wait_for()
    fits_a_telephone(page)


def hover_until_told(page: Any, mark: str, text: str) -> None:
    """A chart that is drawn anew under a resting pointer says nothing until the pointer moves."""
    from playwright.sync_api import TimeoutError as NotYet

    told = page.locator("#vg-tooltip-element", has_text=text)
    for _ in range(20):
        page.mouse.move(0, 0)
        with contextlib.suppress(NotYet):
            page.locator(mark).last.hover(force=True, timeout=1000)
            told.wait_for(timeout=1000)
            return
    raise AssertionError(f"no tooltip with {text}")


def test_hostile_text_is_text(page: Any, address: str) -> None:
    page.goto(f"{address}/trend?machine={FOREIGN}")
    page.locator(CHART).last.wait_for(state="attached")
    hover_until_told(page, CHART, HOSTILE)
    assert page.locator("#vg-tooltip-element script, #vg-tooltip-element img").count() == 0
