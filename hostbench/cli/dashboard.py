"""`hostbench dashboard`: Streamlit over the stored results."""

import importlib.util
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import hostbench
from hostbench.cli.output import show
from hostbench.cli.results import results_folder
from hostbench.core.errors import UsageError, install
from hostbench.core.files import is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    port: int
    headless: bool
    results: str | None


def execute(options: DashboardOptions) -> int:
    """Replace this process by streamlit. Raises UsageError when streamlit is not installed, and for
    a port that cannot be had."""
    if importlib.util.find_spec("streamlit") is None:
        raise UsageError(f"streamlit is not installed; {install('dashboard')}")
    app = _app()
    named = options.results
    shown = named if named and is_url(named) else results_folder(named)
    at = os.environ.get("STREAMLIT_SERVER_ADDRESS") or "localhost"
    _check_free(at, options.port)
    # -P: no module of the project at hand stands in for one that streamlit imports
    command = [sys.executable, "-P", "-m", "streamlit", "run", str(app)]
    server = [
        f"--server.address={at}",
        f"--server.port={options.port}",
        f"--server.headless={str(options.headless).lower()}",
    ]
    quiet = [
        "--browser.gatherUsageStats=false",
        "--server.fileWatcherType=none",
        # and what streamlit recommends to developers of pages, on the page too
        "--logger.hideWelcomeMessage=true",
    ]
    show(f"http://{at}:{options.port} shows {shown}; Ctrl-C ends it")
    # The working directory stays: its pyproject.toml names workloads, its git knows what landed.
    os.execv(sys.executable, [*command, *server, *quiet, "--", "--results", str(shown)])


def _check_free(address: str, port: int) -> None:
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be had ({os.strerror(error.errno or 0)}); name another: --port N"
        ) from error


def _app() -> Path:
    """dashboard/app.py of the checkout, or the copy that the wheel carries."""
    package = Path(hostbench.__file__).parent
    for folder in (package.parent / "dashboard", package / "_dashboard"):
        if (folder / "app.py").is_file():
            return folder / "app.py"
    raise UsageError(f"the dashboard is missing beside {package}; install hostbench again")
