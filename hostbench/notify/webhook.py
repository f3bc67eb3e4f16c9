"""A message for each confirmed change, once, to the address that the environment names."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostbench.core.errors import HostbenchError, UsageError
from hostbench.core.units import number_of
from hostbench.notify import sent
from hostbench.notify.change import ConfirmedChange, in_words, link
from hostbench.notify.http import Place, checked_url, exchange

WEBHOOK = "HOSTBENCH_WEBHOOK"
"""The address, which is a secret."""
FORM = "HOSTBENCH_WEBHOOK_FORM"
DASHBOARD = "HOSTBENCH_DASHBOARD"
"""Where the dashboard is served, for links."""
FORMS = ("json", "slack")
MOST = 20
"""Messages of one night; the others go the next night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified:
    """What became of a night's changes."""

    sent: tuple[ConfirmedChange, ...] = ()
    waiting: tuple[ConfirmedChange, ...] = ()
    """Not sent yet: the next night tries again."""
    warnings: tuple[str, ...] = ()


def notify(
    results: Path,
    changes: Sequence[ConfirmedChange],
    environ: Mapping[str, str] = os.environ,
    machine: str | None = None,
) -> Notified:
    """Send each change that was not sent before, and what of `machine` (of all, if none is named)
    could not be sent on the nights before; note both beside the results.

    Raises nothing that a night could fail by: what goes wrong is a warning. Without WEBHOOK it does
    nothing.
    """
    if not environ.get(WEBHOOK):
        return Notified()
    warnings: list[str] = []
    noted = sent.read(results, warnings.append)
    old = [one for one in noted.waiting if machine in (None, one.machine)]
    due: list[ConfirmedChange] = []
    for change in (*old, *changes):
        if not noted.has_sent(change) and not any(_same(change, one) for one in due):
            due.append(change)
    done: list[ConfirmedChange] = []
    path = sent.new_file(results)
    try:
        place, form, dashboard = _settings(environ)
        for change in due[:MOST]:
            exchange(place, "POST", body=message(change, form, dashboard))
            done.append(change)
            sent.write(path, done)
    except HostbenchError as error:
        warnings.append(str(error))
    left = due[len(done) :]
    new = [one for one in left if one not in old]
    try:
        if new:
            sent.write(path, done, new)
    except HostbenchError as error:
        warnings.append(str(error))
    if left:
        waiting = number_of(len(left), "change")
        warnings.append(f"{waiting} not sent yet: the next night tries again")
    return Notified(sent=tuple(done), waiting=tuple(left), warnings=tuple(warnings))


def _same(first: ConfirmedChange, second: ConfirmedChange) -> bool:
    names = ("series", "direction", "since")
    return all(getattr(first, name) == getattr(second, name) for name in names)


def message(change: ConfirmedChange, form: str, dashboard: str | None) -> dict[str, Any]:
    """The body of a request."""
    where = None if dashboard is None else link(change, dashboard)
    text = in_words(change)
    if form == "slack":
        return {"text": f"{_escaped(text)}{f' <{where}|dashboard>' if where else ''}"}
    fields = {name: _finite(value) for name, value in asdict(change).items() if name != "near"}
    return {"event": "hostbench.change", "text": text, **fields, "link": where}


def _settings(environ: Mapping[str, str]) -> tuple[Place, str, str | None]:
    url = checked_url(environ[WEBHOOK], WEBHOOK)
    form = environ.get(FORM) or "json"
    if form not in FORMS:
        raise UsageError(f"{FORM} is {form!r:.40}; it must be {' or '.join(FORMS)}")
    dashboard = environ.get(DASHBOARD) or None
    if dashboard and not re.match(r"https?://[^/@]+(/|$)", dashboard):
        raise UsageError(
            f"{DASHBOARD} is no address that can be told: it must begin with https:// or http://, "
            "and name no user"
        )
    return Place(name="the webhook", url=url, headers={}), form, dashboard


def _escaped(text: str) -> str:
    """As Slack wants it: nothing in the text is a link or a mention."""
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "@\u200b")):
        text = text.replace(sign, name)
    return text


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, tuple | list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
