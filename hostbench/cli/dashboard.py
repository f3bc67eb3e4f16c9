"""`hostbench dashboard`: Streamlit over the stored results."""

import importlib.util
import os
import socket
import sys
from contextlib import suppress

from hostbench.cli.output import show
from hostbench.cli.results import results_folder
from hostbench.core.errors import TABLE, UsageError, install
from hostbench.core.files import is_url, shipped


def execute(*, port: int, headless: bool, results: str | None) -> int:
    """Replace this process by streamlit. Raises UsageError where streamlit or the app is not there
    or the port is taken, ModuleNotFoundError where what reads the results is not."""
    if importlib.util.find_spec("streamlit") is None:
        raise UsageError(f"streamlit is not installed; {install('dashboard')}")
    for name in TABLE:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(name=name)
    app = shipped("dashboard/app.py")
    source = results if results and is_url(results) else results_folder(results)
    address = os.environ.get("STREAMLIT_SERVER_ADDRESS") or "localhost"
    with suppress(OSError), socket.create_connection((address, port), timeout=1):  # none: free
        raise UsageError(f"port {port} is taken, perhaps by another dashboard; name a --port")
    show(f"http://{address}:{port} shows {source}; Ctrl-C ends it")
    # -P: no module of the project at hand stands in for one that streamlit imports. The working
    # directory stays: its pyproject.toml names workloads, its git knows what landed.
    command = [sys.executable, "-P", "-m", "streamlit", "run", str(app)]
    settings = {
        "server.address": address,
        "server.port": port,
        "server.headless": str(headless).lower(),
        "browser.gatherUsageStats": "false",
        "server.fileWatcherType": "none",
        "logger.hideWelcomeMessage": "true",  # and what streamlit recommends to developers
    }
    words = [f"--{name}={value}" for name, value in settings.items()]
    os.environ["HOSTBENCH_RESULTS"] = str(source)
    os.execv(sys.executable, [*command, *words])
