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
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from hostbench.report.html import html
from hostbench.report.overview import overview
from hostbench.store.history import History
from tests import dashboard_tree, own_project
from tests.dashboard_tree import CHANGED_MACHINE, CPU_MACHINE, FOREIGN, GPU_MACHINE, HOSTILE, TREND
from tests.scratch import Scratch

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync")
CHART = "[data-testid=stVegaLiteChart] .mark-symbol.role-mark path"
BAR = "[data-testid=stVegaLiteChart] .mark-rect.role-mark path"
AT_REST = "[data-testid=stApp][data-test-script-state=notRunning]"
# Streamlit asks for these below each page's own path, too, and goes on without them.
KNOWN_404 = ("_stcore/health", "_stcore/host-config")
_FITS = "document.querySelector('[data-testid=stMain]').scrollWidth <= 390"
RATIO_AND_ORDER = (
    "At which ratio of compute to copy does overlap pay most?",
    "How to keep copy and compute in order: which way costs least?",
)
"""A chart of points, and one of bars."""
WIDE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    results = dashboard_tree.write(tmp_path_factory.mktemp("results"))
    history = dashboard_tree.write_changes(tmp_path_factory.mktemp("history"))
    shutil.copytree(history / CHANGED_MACHINE, results / CHANGED_MACHINE)
    with started(ROOT, "--results", str(results), "--allow-triage") as shown:
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


def saved(page: Any, button: Any) -> Any:
    """What a button saves, pressed once the page is at rest: a page that runs again meanwhile makes
    its files anew, and the press may have been for an old one."""
    page.locator(AT_REST).wait_for(state="attached")
    with page.expect_download() as file:
        button.click()
    return file.value


def fits_a_telephone(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("innerWidth == 390")
    page.get_by_role("button", name="CSV").last.wait_for()
    page.wait_for_function(_FITS)


def open_the_first(page: Any, url: str) -> None:
    """The first row of the table of changes."""
    page.goto(url)
    rows = page.get_by_test_id("stDataFrame").first
    rows.wait_for()
    page.wait_for_timeout(300)
    rows.click(position={"x": 16, "y": 52})


def test_a_family_with_points_bars_and_tables_is_drawn_and_saved(
    page: Any, address: str, tmp_path: Path
) -> None:
    """AppTest draws the other families."""
    asked = "&".join(f"question={quote(one)}" for one in RATIO_AND_ORDER)
    page.goto(f"{address}/family?family=overlap&machine={GPU_MACHINE}&{asked}")
    page.get_by_text("Without a valid number").first.wait_for()
    is_drawn(page, "Families", CHART, BAR)
    page.get_by_text("Every case: ").click()
    every = page.get_by_test_id("stExpander").filter(has_text="Every case: ")
    button = every.get_by_role("button", name="CSV", exact=True)
    button.wait_for()
    csv = saved(page, button)
    assert csv.suggested_filename == "overlap.csv"
    csv.save_as(tmp_path / "overlap.csv")
    lines = (tmp_path / "overlap.csv").read_text().splitlines()
    assert lines[0].startswith("machine,hardware,device,commit")
    planned = dashboard_tree.gpu_run(8).header.planned
    assert len(lines) == 1 + sum(case.startswith("overlap.") for case in planned)

    page.locator("summary", has_text="figures").first.click()
    for form, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        picture = saved(page, page.get_by_test_id("stDownloadButton").filter(has_text=form).first)
        name = picture.suggested_filename
        assert name.startswith("overlap.") and name.endswith(f".{form.lower()}")
        picture.save_as(tmp_path / form)
        assert (tmp_path / form).read_bytes().startswith(start)
    title = RATIO_AND_ORDER[0].rpartition(" ")[0]
    assert title in (tmp_path / "SVG").read_text()
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
    page.get_by_text("The points of the picture").first.wait_for()
    is_drawn(page, "Trend", CHART)
    page.locator(CHART).last.click(force=True)
    page.get_by_role("link", name="this run", exact=True).click()
    page.get_by_role("heading", name="Run 2026").wait_for()
    page.go_back()
    is_drawn(page, "Trend", CHART)
    page.locator(CHART).last.click(force=True)
    page.get_by_role("link", name="this run", exact=True).wait_for()
    page.get_by_role("combobox", name="Case").fill("1MiB, pageable, blocking=True")
    page.get_by_role("option", name="cuda, 1MiB, pageable, blocking=True").click()
    page.get_by_text("Click a point to see its run").wait_for()
    is_drawn(page, "Trend")
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
    steps = page.evaluate("history.length")
    rows.click(position={"x": 16, "y": 52})
    page.get_by_role("link", name="Chart and figures").click()
    page.wait_for_url("**/family?*")
    assert page.evaluate("history.length") == steps + 1
    chosen = _query(page)
    assert (chosen["machine"], chosen["run"][:8]) == (CPU_MACHINE, "20261101")
    assert page.locator("a[href*=javascript]").count() == 0
    page.get_by_role("link", name="Trend", exact=True).click()
    page.get_by_role("heading", name="Trend", exact=True).wait_for()
    page.wait_for_url("**/trend")


def test_refreshing_is_in_the_address_of_each_page_and_no_step_back(
    page: Any, address: str
) -> None:
    page.goto(f"{address}/runs?machine={CPU_MACHINE}&run=gone")
    is_drawn(page, "Runs", "[data-testid=stDataFrame]")
    before = page.evaluate("history.length")
    page.get_by_text("Refresh by itself").click()
    page.wait_for_url("**refresh=true*")
    assert page.evaluate("history.length") == before
    page.get_by_label("Machine").click()
    page.get_by_role("option", name=GPU_MACHINE).click()
    page.wait_for_url(f"**machine={GPU_MACHINE}*")  # it drops the run
    assert _query(page) == {"machine": GPU_MACHINE, "refresh": "true"}
    assert page.evaluate("history.length") == before + 1
    page.get_by_role("link", name="Machines").click()
    page.wait_for_url("**/machines?refresh=true")


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
    open_the_first(page, f"{address}/changes")
    page.get_by_role("heading", name="fails now: +10.0%, commit f054cbad").wait_for()
    page.wait_for_url("**/changes?change=*")
    is_drawn(page, "Changes", CHART)
    page.get_by_role("link", name="all of this series in Trend").click()
    is_drawn(page, "Trend", CHART)
    assert _query(page)["case"].startswith("transfer.host_to_device[")
    page.go_back()
    page.get_by_role("heading", name="fails now: +10.0%, commit f054cbad").wait_for()
    fits_a_telephone(page)


def test_a_cell_leads_to_its_series_in_one_step_back(page: Any, address: str) -> None:
    page.goto(address)
    is_drawn(page, "Status", BAR)
    steps = page.evaluate("history.length")
    page.locator(BAR).first.click(force=True)
    page.get_by_role("link", name="The series of").click()
    is_drawn(page, "Series")
    assert page.evaluate("history.length") == steps + 1
    page.go_back()
    is_drawn(page, "Status", BAR)
    assert _query(page) == {}


def test_no_table_has_a_csv_with_formulas(page: Any, address: str) -> None:
    """Streamlit's own has them."""
    page.goto(f"{address}/runs")
    page.get_by_test_id("stDataFrame").first.hover()
    page.get_by_role("button", name="Search").first.wait_for()
    assert page.get_by_role("button", name="Download as CSV").count() == 0


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


def test_the_static_report_opens_alone_on_a_dark_telephone(page: Any, tmp_path: Path) -> None:
    """It asks for nothing, fits the screen, and its charts are as light as its text."""
    history = History(dashboard_tree.write_changes(tmp_path))
    run = history.runs()[-1]
    file = tmp_path / "report.html"
    of_history = overview(history, tmp_path)
    file.write_text(html(history.rows_of(run), history.whole(run), history=of_history))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(file.as_uri())
    assert asked == [file.as_uri()]
    assert page.locator("h1").first.inner_text().startswith("1 cause fails on 1 machine")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    text = page.locator("figure .role-axis-label text").first
    color = "element => [getComputedStyle(element).fill, getComputedStyle(document.body).color]"
    assert len(set(text.evaluate(color))) == 1
    page.emulate_media(color_scheme="light")


def test_two_commits_are_compared_by_a_link(page: Any, address: str) -> None:
    before, sides = page.evaluate("history.length"), {"first": "1" * 40, "second": "4" * 40}
    page.goto(f"{address}/compare?kind=commit&verdict=undecided&{urlencode(sides)}")
    is_drawn(page, "Compare", CHART)
    page.get_by_text(" -> ".join(side[:8] for side in sides.values())).wait_for()
    page.get_by_role("radio", name="all ").click()
    page.wait_for_url("**verdict=all*")
    assert sides.items() <= _query(page).items()
    assert page.evaluate("history.length") == before + 2
    fits_a_telephone(page)


def test_what_a_change_is_can_be_said_on_the_page(page: Any, address: str) -> None:
    """The last one: what fails is in triage after it."""
    open_the_first(page, f"{address}/changes?state=fails%20now")
    page.get_by_role("heading", name="fails now").wait_for()
    page.get_by_label("Note").fill(f"known {HOSTILE}")
    page.get_by_role("button", name="Write to triage").click()
    page.get_by_role("radio", name="fails now 0").wait_for()  # a page that is left writes nothing
    open_the_first(page, f"{address}/changes?state=in%20triage")
    page.get_by_text(f"known {HOSTILE}").first.wait_for()
