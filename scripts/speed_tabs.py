"""The browser of scripts/dashboard-speed: when a page is drawn, by a look inside it.

A page is drawn when Streamlit is connected and idle and each chart and table in view has its svg or
canvas. Its time is that of the last change of the page's content before half a second of quiet.
"""

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from playwright.sync_api import Error, TimeoutError, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync")
MOST_BACK = 15
_LOOK = """
(() => {
  const within = (node, id) => node.querySelectorAll(`[data-testid=${id}]`);
  const seen = {since: null, last: 0, clicked: 0, ran: true};
  const lacks = () => {  // what it is not drawn for; "" where it is
    const app = document.querySelector("[data-testid=stApp]");
    const {testConnectionState: link, testScriptState: script} = app?.dataset ?? {};
    if (link !== "CONNECTED") return `connection: ${link}`;
    if (script !== "notRunning") { seen.ran = true; return `script: ${script}`; }
    const [main] = within(app, "stMain");
    if (!main || !within(main, "stElementContainer").length) return "nothing on the page";
    if (app.querySelector("[data-testid=stSkeleton], [data-testid=stAppSkeleton]"))
      return "a part still loads";
    if (main.querySelector("[data-stale=true]")) return "a part is stale";
    const visible = (box) => box.checkVisibility({visibilityProperty: true});
    const empty = (id, kinds) =>
      [...within(main, id)].some((box) => visible(box) && !box.querySelector(kinds));
    if (empty("stVegaLiteChart", "svg, canvas")) return "a chart is empty";
    return empty("stDataFrame", "canvas") ? "a table is empty" : "";
  };
  const look = () => {
    seen.lacks = lacks();
    if (seen.lacks) seen.since = null; else seen.since ??= performance.now();
  };
  new MutationObserver((changes) => {
    const nodes = changes.map(({target}) => target.closest ? target : target.parentElement);
    const own = nodes.filter((node) => node && !node.closest("canvas"));
    if (own.some((node) => node.closest("[data-testid=stMain]"))) seen.last = performance.now();
    if (own.length) look();
  }).observe(document, {
    subtree: true, childList: true, characterData: true, attributes: true,
    attributeFilter: ["data-test-script-state", "data-test-connection-state", "data-stale"],
  });
  addEventListener("pointerdown", (event) => {  // before anything can follow from the click
    Object.assign(seen, {since: null, clicked: event.timeStamp, ran: false});
  }, true);
  setInterval(look, 50);
  window.ran = () => seen.ran;
  window.lacks = () => seen.lacks || (seen.ran ? "it changes all the time" : "no run was seen");
  window.drawn = (quiet) => {
    look();
    const at = Math.max(seen.since, seen.last);
    if (seen.since === null || !seen.ran || performance.now() - at < quiet) return null;
    const errors = [...document.querySelectorAll("[data-testid=stException], [role=dialog]")];
    return {
      took_s: (at - seen.clicked) / 1e3,
      at_s: (performance.timeOrigin + at) / 1e3,
      error: errors.map((box) => box.innerText).join(" ").replaceAll(/\\s+/g, " ").slice(0, 200),
      marks: document.querySelectorAll("[data-testid=stMain] svg .role-mark path").length,
    };
  };
})()
"""
_QUIET_MS = 500
_REPEAT_MS = 5_000
_NAVIGATION = ", ".join(
    f"[data-testid={id}] a" for id in ("stTopNav", "stTopNavPopover", "stSidebarNav")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    took_s: float
    """From the page's address, or from the click on a widget."""
    at_s: float
    """Seconds since the epoch."""
    marks: int
    """Points and lines that charts have as svg."""


class NotDrawnError(RuntimeError):
    """Why a page was not drawn, in words; also what an exception or a dialog on it says."""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser's context. Raises RuntimeError where no Chromium is installed."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise RuntimeError(f"none of {', '.join(BROWSERS)} is installed: install one")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(_LOOK)
        yield context
        browser.close()


def visit(tab: Any, url: str, limit_s: float) -> Drawn:
    """In front: Chromium draws a tab behind another one once in a second. Raises NotDrawnError."""
    with _said():
        tab.bring_to_front()
        tab.goto(url, wait_until="commit", timeout=limit_s * 1e3)
    return drawn(tab, limit_s)


def drawn(tab: Any, limit_s: float) -> Drawn:
    """Wait for it. Raises NotDrawnError."""
    with _said():
        try:
            found = tab.wait_for_function(
                f"window.drawn && window.drawn({_QUIET_MS})", timeout=limit_s * 1e3, polling=50
            )
        except TimeoutError as error:
            lacks = tab.evaluate("window.lacks()")
            raise NotDrawnError(f"not within {limit_s:g} s ({lacks})") from error
        said = found.json_value()
    if words := said.pop("error"):
        raise NotDrawnError(f"the page says: {words}")
    return Drawn(**said)


def visit_at_once(context: Any, url: str, num: int, limit_s: float) -> list[Drawn | str]:
    """In as many tabs, none of which waits for another; why one was not drawn."""
    tabs = [context.new_page() for _ in range(num)]
    for tab in tabs:
        tab.evaluate("url => void setTimeout(() => { location.href = url; }, 100)", url)
    found: list[Drawn | str] = []
    for tab in tabs:
        try:
            found.append(drawn(tab, limit_s))
        except NotDrawnError as error:
            found.append(str(error))
    for tab in tabs:
        tab.close()
    return found


def pages(tab: Any) -> dict[str, str]:
    """The navigation of the page in the tab: what each link says, and the path it leads to."""
    found = {}
    sections = tab.get_by_test_id("stTopNavSection")
    for place in range(-1, sections.count()):
        if place >= 0:
            sections.nth(place).click()
            tab.locator(_NAVIGATION).first.wait_for()
        for link in tab.locator(_NAVIGATION).all():
            url = urljoin(tab.url, link.get_attribute("href") or "")
            found[link.inner_text().strip()] = urlsplit(url).path
        if place >= 0:
            tab.keyboard.press("Escape")
    return found


def widget(tab: Any) -> Callable[[], object] | None:
    """What changes the first widget of the page that has another value, each call to another one;
    None where the page has no such widget. Raises NotDrawnError."""
    parts = [tab.get_by_test_id(id) for id in ("stMain", "stSidebar")]
    with _said():
        for (kind, act), part in itertools.product(_CHANGES.items(), parts):
            for box in part.get_by_test_id(kind).all():
                if box.is_visible() and act(tab, box, False):
                    return partial(act, tab, box, True)
    return None


def change(tab: Any, act: Callable[[], object], limit_s: float) -> Drawn:
    """Do what `widget` gave, and wait; once more where no run follows, since a list that opens may
    move under the pointer. Raises NotDrawnError."""
    with _said():
        tab.bring_to_front()
        act()
        try:
            tab.wait_for_function("window.ran()", timeout=_REPEAT_MS)
        except TimeoutError:
            act()
    return drawn(tab, limit_s)


def _choose(tab: Any, box: Any, really: bool) -> bool:
    box.get_by_role("combobox").click()
    options = tab.get_by_role("option")
    options.first.wait_for()
    others = [one for one in options.all() if one.get_attribute("aria-selected") != "true"]
    if others and really:
        others[0].click()
    else:
        tab.keyboard.press("Escape")
    return len(others) > 0


def _press(selector: str) -> Callable[[Any, Any, bool], bool]:
    def press(tab: Any, box: Any, really: bool) -> bool:
        others = box.locator(selector)
        if others.count() and really:
            others.first.click()
        return bool(others.count())

    return press


_CHANGES = {
    "stSelectbox": _choose,
    "stRadio": _press("label:has(input:not(:checked))"),
    "stButtonGroup": _press("button:not([aria-checked=true], [aria-pressed=true])"),
    "stCheckbox": _press("label:has(input)"),
}


def presses_to_leave(tab: Any, home: str, limit_s: float) -> int:
    """How often Back is pressed until the page before, which is `home`, is there again; MOST_BACK
    and one for more. Raises NotDrawnError."""
    for num in range(1, MOST_BACK + 1):
        with _said():
            tab.evaluate("history.back()")
            tab.wait_for_timeout(_QUIET_MS)
        drawn(tab, limit_s)
        if urlsplit(tab.url).netloc == urlsplit(home).netloc:
            return num
    return MOST_BACK + 1


@contextlib.contextmanager
def _said() -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise NotDrawnError(error.message.partition("\n")[0]) from error
