"""One exchange over HTTP: within a time, no redirects, and an error that gives nothing away."""

import json
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.units import MIB

LIMIT_S = 15.0
"""For the whole exchange, however slowly the other side speaks."""
MOST_READ = 8 * MIB
_HERE = ("localhost", "127.0.0.1", "::1")
_REMEDY = {
    301: "it has moved: name its new address",
    302: "it has moved: name its new address",
    307: "it has moved: name its new address",
    308: "it has moved: name its new address",
    401: "the token is wrong, or no longer valid",
    403: "the token may not do this, or has asked too often",
    404: "it is not there, or the token may not see it",
    429: "it was asked too often: try again later",
}
"""What a status mostly means."""


class RefusedError(BrokenError):
    """The other side answered, and not with what was asked for."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whom we speak to. `url` is a secret, or may hold one: only `name` is ever shown."""

    name: str
    url: str
    headers: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Place({self.name})"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Else a token would go wherever the answer says."""

    def redirect_request(self, *_: Any) -> None:
        return None


def checked_url(url: str, source: str) -> str:
    """The address itself. Raises UsageError, which does not show it: it may be a secret."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _HERE)
        is_good = is_good and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_good = False
    if not is_good or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(
            f"{source} is no address that a secret may be sent to: it must begin with https://, "
            "and name no user"
        )
    return url


def exchange(place: Place, method: str, path: str = "", body: Any = None) -> Any:
    """Send JSON, and return the JSON that comes back; None where what comes back is none.

    Raises BrokenError where nobody answers, RefusedError for a status that is no success.
    """
    done: list[tuple[int, bytes] | str] = []
    work = threading.Thread(target=_exchange, args=(place, method, path, body, done), daemon=True)
    work.start()
    work.join(LIMIT_S)
    if not done:
        raise BrokenError(f"{place.name} does not answer within {LIMIT_S:g} s")
    if isinstance(done[0], str):
        raise BrokenError(f"{place.name} cannot be reached ({done[0]})")
    status, content = done[0]
    if not 200 <= status < 300:
        remedy = f": {_REMEDY[status]}" if status in _REMEDY else ""
        raise RefusedError(f"{place.name} refuses, with status {status}{remedy}", status)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _exchange(
    place: Place, method: str, path: str, body: Any, done: list[tuple[int, bytes] | str]
) -> None:
    """Errors of the libraries may hold the address, so none of their text is kept."""
    try:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "hostbench",
            **place.headers,
        }
        asked = urllib.request.Request(place.url + path, data, headers, method=method)
        handlers: list[Any] = [_NoRedirect]
        if asked.type == "http":  # to this machine: no proxy is to read it
            handlers.append(urllib.request.ProxyHandler({}))
        opener = urllib.request.build_opener(*handlers)
        with opener.open(asked, timeout=2 * LIMIT_S) as answer:
            done.append((answer.status, answer.read(MOST_READ)))
    except urllib.error.HTTPError as error:
        error.close()
        done.append((error.code, b""))
    except Exception as error:
        done.append(_why(getattr(error, "reason", error)))


def _why(error: object) -> str:
    if isinstance(error, ssl.SSLError):
        return "its certificate is not accepted"
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return type(error).__name__
