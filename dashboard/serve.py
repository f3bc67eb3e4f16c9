"""What `hostbench dashboard` starts: the pages of app.py, each of which says where its server is.

    python dashboard/serve.py FLAG ... -- --results DIR

takes the flags of `streamlit run`. A browser that opens /trend looks for the server below /trend
first, finds nothing there, and waits for a tenth of a second until it looks above.
`window.__streamlit` is how those who host streamlit tell it; a streamlit that does not know it
looks as before, as with `streamlit run dashboard/app.py`.
"""

import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NoReturn

import click
import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route
from streamlit import cli_util, config, file_util
from streamlit.web.cli import main
from streamlit.web.server import server_util

TOLD = '<script>window.__streamlit = {BACKEND_BASE_URL: new URL(".", location).href};</script>'
HERE = Path(__file__).parent
FIRST = "status"
SOON_S = 0.2
"""From the start of the pages' runtime until the port answers, at most."""


async def page(_: Request) -> HTMLResponse:
    """Streamlit's own page, which the browser fills."""
    text = (Path(file_util.get_static_dir()) / "index.html").read_text()
    told = text.replace("<head>", f"<head>{TOLD}", 1)
    return HTMLResponse(told, headers={"Cache-Control": "no-cache"})


async def first(request: Request) -> RedirectResponse:
    """The first page has no name; who gives it one is led there, with what the link chose."""
    return RedirectResponse(f"./?{request.url.query}")


def routes() -> list[Route]:
    """Where the pages are. Below a base path, that path with a slash: without one, streamlit leads
    there."""
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    start = f"/{base}/" if base else "/"
    names = {path.stem for path in HERE.glob("views/[a-z]*.py")} - {FIRST}
    pages = [Route(f"{start}{name}", page) for name in ("", *sorted(names))]
    return [*pages, Route(f"{start}{FIRST}", first)]


def read_ahead() -> None:
    """Its imports take as long as Streamlit's own: the server need not wait for them."""
    import ahead

    ahead.read()


def end_now(code: int) -> NoReturn:
    """A thread that still reads would crash in an interpreter that is taken down beneath it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@asynccontextmanager
async def opened(_: st.App) -> AsyncIterator[None]:
    """In a browser, unless the server is headless, and as soon as it answers."""
    threading.Thread(target=read_ahead, daemon=True).start()
    if not config.get_option("server.headless"):
        address = server_util.get_display_address(config.get_option("server.address"))
        threading.Timer(SOON_S, cli_util.open_browser, [server_util.get_url(address)]).start()
    yield


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # once the server has stopped
    code = 0
    try:
        with suppress(KeyboardInterrupt, click.Abort):  # Ctrl-C is how it ends
            main(["run", __file__, *sys.argv[1:]], standalone_mode=False)
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    end_now(code)
else:  # streamlit imports it
    app = st.App(HERE / "app.py", routes=routes(), lifespan=opened)
