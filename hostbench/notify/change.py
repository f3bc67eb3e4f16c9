"""A confirmed change, as it is told outside."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from hostbench.core.units import format_seconds, one_line
from hostbench.judge.lines import MACHINE
from hostbench.report.event_words import why
from hostbench.report.judged import ExplainedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedChange:
    """What a message says of one."""

    series: str
    """`case@machine`, or `machine:NAME` where a whole machine moved."""
    machine: str
    since: str
    """The first bad commit, or the first run's id."""
    direction: str
    """`slower` or `faster`."""
    effect: float
    """Relative change of the seconds."""
    near: frozenset[str] = frozenset()
    """Commits and runs that it may have begun with as well."""
    interval: tuple[float | None, float | None] = (None, None)
    before_s: float | None = None
    after_s: float | None = None
    cause: str = ""


def of_event(told: ExplainedEvent) -> ConfirmedChange:
    """The record of a confirmed event."""
    one = told.found
    return ConfirmedChange(
        series=one.event.id,
        machine=one.grid.machine,
        since=one.event.commit,
        direction=one.event.direction,
        effect=one.change.effect,
        near=one.event.near,
        interval=(one.low, one.high),
        before_s=one.before_s,
        after_s=one.after_s,
        cause="; ".join(why([told])),
    )


def in_words(change: ConfirmedChange) -> str:
    """One line, without markup."""
    low, high = change.interval
    size = f"{abs(change.effect):.1%}"
    size += "" if low is None or high is None else f" ({low:+.1%} to {high:+.1%})"
    both = change.before_s, change.after_s
    times = [format_seconds(value) for value in both if value is not None]
    text = f"{size} {change.direction}: {change.series} since {change.since[:24]}"
    text += f", {' to '.join(times)}" if len(times) == 2 else ""
    return one_line(f"{text}. {change.cause}" if change.cause else text)


def link(change: ConfirmedChange, dashboard: str) -> str:
    """The dashboard's page of the change."""
    view = {"machine": change.machine}
    page = "changes"
    if not change.series.startswith(MACHINE):
        case = change.series.removesuffix(f"@{change.machine}")
        view |= {"workload": case.partition("[")[0], "case": case}
        page = "trend"
    return f"{dashboard.rstrip('/')}/{page}?{urlencode(view, quote_via=quote)}"
