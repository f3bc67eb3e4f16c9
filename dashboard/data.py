"""What is stored, as the pages ask for it: one cached loader a question.

Each takes a `Store`, whose signature changes with the stored files, so that nothing is shown that
is older than they are. What a loader returns is shared between visits: only read it.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st
import words
from msgspec import structs

from hostbench.core import asv_config
from hostbench.core.files import is_url
from hostbench.core.records import environment_of
from hostbench.families.question import Row
from hostbench.judge.grid import marked, settings
from hostbench.judge.history import History
from hostbench.judge.two_sides import Comparison
from hostbench.report.answer import Answer
from hostbench.report.blocks import Spec
from hostbench.report.charts import PALETTE, svg
from hostbench.report.comparison import compared, format_level, name_of, page
from hostbench.report.history import history_of, with_subjects
from hostbench.report.picture import picture_of, small
from hostbench.report.questions import answers as answers_of
from hostbench.report.questions import rows_of
from hostbench.report.sides import Key, chosen
from hostbench.report.trend import MOST_DRAWN, TALL, TimeOf, Trend, chart, units_of
from hostbench.report.trend import trend as make_trend
from hostbench.report.write import markdown
from hostbench.store import triage
from hostbench.store.archive import READERS_WAIT_S, adopt_orphans
from hostbench.store.points import STATUSES
from hostbench.store.results import ABOUT, Results, version

WRITTEN = (".json", ".jsonl", ".toml", ".gz", triage.SUFFIX)
DATES: dict[str, TimeOf] = {"commit date": "committed_at", "run time": "started_at"}
FACTS = ("hardware", "torch", "driver")
SMALL_WIDTH, BARS_WIDTH, SMALL_HEIGHT = 190, 250, 150
COMPARED = "verdict workload series machine change low high before after why id case".split()

UNSURE = {"undecided": 1, "unavailable": 2}


class Store(NamedTuple):
    """A results folder, or the URL of a table, as it is now."""

    results: str
    signature: int

    @property
    def folder(self) -> Path | None:
        return None if is_url(self.results) else Path(self.results)


def opened() -> Store:
    """HOSTBENCH_RESULTS, else ./results; the URL of a table as it is."""
    results = os.environ.get("HOSTBENCH_RESULTS") or "results"
    return Store(results, signature(results))


@st.cache_data(ttl=2, show_spinner=False)
def signature(results: str) -> int:
    """Changes whenever a stored file comes, goes or is written."""
    if is_url(results):
        return version(results)
    about = []
    for folder, _, names in os.walk(results):
        for path in (f"{folder}/{name}" for name in names if name.endswith(WRITTEN)):
            with suppress(OSError):  # gone meanwhile
                stat = os.stat(path)  # noqa: PTH116 - thousands of Paths are slow
                about.append((path, stat.st_size, stat.st_mtime_ns))
    return hash(tuple(sorted(about)))


@st.cache_resource(max_entries=2, show_spinner="Reading what is stored ...")
def history(store: Store) -> Results:
    if store.folder:
        adopt_orphans(store.folder, lambda text: None, untouched_s=READERS_WAIT_S)
    return Results(store.folder or store.results)


@lru_cache(maxsize=4)
def runs(store: Store) -> pd.DataFrame:
    """A row for each run of a machine with a name, the newest first: how many points of each status
    it has, the families that it has a number of, what a page calls it (`name`), and which of FACTS
    differ from those of the run before (`changed`)."""
    how = dict.fromkeys(ABOUT, "first") | dict.fromkeys(STATUSES, "sum")
    counts = history(store).counts
    counts = counts.assign(families=counts["family"].where(counts["ok"] > 0))
    groups = counts.groupby(["machine", "run_id"], sort=False)
    rows = groups.agg({**how, "families": frozenset}).reset_index()
    rows = rows.sort_values("started_at", ascending=False, kind="stable", ignore_index=True)
    environment = rows["run_id"].map(environment_of)  # asv measures in several, one after the other
    marks = pd.concat([environment, rows["scratch"]], axis=1).fillna("").astype(str).to_numpy()
    names = [
        ", ".join(filter(None, (words.when(at), words.commit8(commit), *more)))
        for at, commit, more in zip(rows["started_at"], rows["commit"], marks, strict=True)
    ]
    changed = []
    for fact in FACTS:
        known = rows[fact].dropna()
        before = known.groupby([rows["machine"], environment.fillna("")]).shift(-1)
        changed.append((f"{fact} " + before + " -> " + known)[before.notna() & (before != known)])
    texts = pd.concat(changed).groupby(level=0).agg(", ".join)
    return rows.assign(name=names, changed=texts).fillna({"changed": ""})


def machines(store: Store) -> list[str]:
    """The one with the newest run first."""
    return list(runs(store)["machine"].unique())


@lru_cache(maxsize=64)
def rows(store: Store, machine: str, run_id: str) -> pd.DataFrame:
    """The tidy frame's rows of one run, with what its rates are held against."""
    return history(store).run_rows(machine, run_id).assign(machine=machine)


@lru_cache(maxsize=64)
def measured(store: Store, machine: str, run_id: str) -> frozenset[str]:
    """The workloads that a run has a number of."""
    own = rows(store, machine, run_id)
    return frozenset(own["workload"][own["status"] == "ok"])


@lru_cache(maxsize=64)
def rows_of_runs(
    store: Store, keys: tuple[tuple[str, str], ...], workloads: tuple[str, ...]
) -> list[Row]:
    """What has a number of these workloads in some runs (machine, id)."""
    every = pd.concat([rows(store, *key) for key in keys])
    good = (every["status"] == "ok") & (every["seconds"] > 0) & every["workload"].isin(workloads)
    names = runs(store)[["machine", "run_id", "name"]].rename(columns={"name": "run"})
    known = rows_of(every[good].merge(names, on=["machine", "run_id"]), words.read)
    return [replace(row, axes={"workload": row.workload, **row.axes}) for row in known]


def measured_in(rows: Sequence[Row]) -> str:
    """The machines and runs of what is drawn."""
    return "; ".join(dict.fromkeys(f"{row.machine}, {row.run}" for row in rows))


@lru_cache(maxsize=32)
def small_picture(
    store: Store, name: str, keys: tuple[tuple[str, str], ...], ink: str, ideal_s: float | None
) -> tuple[str, str]:
    """A picture (words.PICTURES), or that of a workload without one, of these runs (machine, id) as
    one SVG, and its description; both empty where there is nothing to draw. Four charts of vega's
    would take longer than the rest of the page."""
    own = words.PICTURES.get(name) or picture_of(name)
    chart = small(own, rows_of_runs(store, keys, (own.workload,)), SMALL_HEIGHT, ideal_s)
    if chart is None:
        return "", ""
    has_lines = any(own["mark"]["type"] == "line" for own in chart["layer"])
    return svg(chart, ink, SMALL_WIDTH if has_lines else BARS_WIDTH), chart["description"]


@lru_cache(maxsize=16)
def series(store: Store, machine: str) -> pd.DataFrame:
    """A row for each series of a machine: workload, case, has_number."""
    return history(store).series(machine).assign(machine=machine)


@lru_cache(maxsize=32)
def trend(store: Store, machine: str, case: str) -> pd.DataFrame:
    """The rows of one series, the oldest first, with their `group`, as events name it; points with
    few launches are scratch."""
    stored = marked(history(store).trend(machine, case))
    stored = stored[stored["status"] != "not measured"]
    known = {series.group for series in judged(store).series if series.machine == machine}
    groups = (f"{machine}/{name}" for name in settings(stored))
    group = [name if name in known else machine for name in groups]
    return stored.assign(machine=machine, group=group)


@st.cache_resource(max_entries=16, show_spinner=False)
def trends(
    store: Store,
    series: tuple[tuple[str, str], ...],
    part: str,
    _rows: Sequence[pd.DataFrame],
    unit: str = "",
    by: str = "commit date",
    height: int = TALL,
    most: int = MOST_DRAWN,
) -> tuple[dict[str, Trend], Spec]:
    """These series (case, group) by their id, over DATES, and their chart. `_rows` of each are the
    `part` of the series that is drawn."""
    history, unit = judged(store), unit or units_of(_rows)[0]
    detectable = {own.id: own.detectable for own in history.series}
    one_case, one_group = (len(set(column)) == 1 for column in zip(*series, strict=True))
    drawn = dict[str, Trend]()
    for (case, group), rows in zip(series, _rows, strict=False):
        own, name = f"{case}@{group}", group if one_case else f"{words.case(case)}, {group}"
        events = [event for event in history.events if event.id in (own, f"machine:{group}")]
        label, smallest = words.case(case) if one_group else name, detectable.get(own)
        share = most // len(series)
        drawn[own] = make_trend(rows, label, unit, DATES[by], events, smallest, most=share)
    every = sorted(machines(store))
    owners = [name for rows in _rows for name in rows["machine"].unique()]
    palette: Sequence[str] = PALETTE
    if one_case and len({*owners}) == len(series) and len(every) <= len(PALETTE):
        palette = [PALETTE[every.index(name)] for name in owners]  # whichever are chosen
    return drawn, chart([*drawn.values()], unit, f"{by}, UTC", height, palette)


@st.cache_resource(max_entries=16, show_spinner=False)
def small_trend(
    store: Store, series: tuple[str, str], part: str, ink: str, _rows: pd.DataFrame
) -> str:
    """One series over its commits as an SVG."""
    _, spec = trends(store, (series,), part, [_rows], height=SMALL_HEIGHT, most=MOST_DRAWN // 4)
    return svg(spec, ink, SMALL_WIDTH)


@st.cache_resource(max_entries=32, show_spinner="Asking the run ...")
def answer(
    store: Store, machine: str, run_id: str, workload: str, cases: frozenset[str]
) -> Answer | None:
    """What these cases of a workload say, the most certain; None where no question has one."""
    own = rows(store, machine, run_id)
    own = own[own["family"] == workload.partition(".")[0]]
    every = answers_of(rows_of(own[(own["workload"] != workload) | own["case"].isin(cases)]))
    mine = (answer for answer in every if answer.workload == workload)
    return min(mine, key=lambda answer: UNSURE.get(answer.state, 0), default=None)


def ideal_s(answer: Answer | None) -> float | None:
    figures = answer.figures if answer else ()
    return next((figure.value for figure in figures if figure.label == "ideal"), None)


@st.cache_resource(max_entries=2, show_spinner="Judging what is stored, once for each new run ...")
def judged(store: Store) -> History:
    """git is asked in the project of the results, else where the dashboard was
    started."""
    root = asv_config.project_root(store.folder.resolve()) if store.folder else None
    own = history_of(history(store))
    return structs.replace(own, events=tuple(with_subjects(own.events, root or Path.cwd())))


@st.cache_resource(max_entries=8, show_spinner="Comparing ...")
def comparison(
    store: Store, names: tuple[str, str], machines: tuple[str, ...]
) -> tuple[pd.DataFrame, Sequence[str], str]:
    """As `hostbench compare`: COMPARED of each series, notes, and the page as Markdown. The first
    name may be hostbench.report.sides.LEVEL. Raises HostbenchError where two sides cannot be
    compared."""
    stored = history(store)
    runs = stored.sides()
    both = compared(stored, *chosen(runs[runs["machine"].isin(machines)], names, lambda _: None))
    rows = [_row(key, one) for key, one in both.comparisons.items()]
    text = markdown(page(both).blocks())
    return pd.DataFrame(rows, columns=COMPARED), both.notes, text


def _row(key: Key, one: Comparison) -> tuple[Any, ...]:
    """Under COMPARED."""
    levels = (
        format_level(None, level) if one.in_bytes else format_level(level, None)
        for level in (one.before, one.after)
    )
    machine, case, _ = key
    named = case.partition("[")[0], words.case(case), machine
    change = one.effect, one.low, one.high
    return (one.verdict, *named, *change, *levels, one.why, name_of(key), case)


@st.cache_resource(max_entries=16, show_spinner="Reading the run ...")
def facts(store: Store, machine: str, run_id: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What was read before a run, and what differs from the machine's run before and may be a
    cause, the likeliest first. Of asv's own file nothing is known."""
    stored = history(store)
    for run in stored.runs():
        if (run.machine, run.run_id) == (machine, run_id):
            return stored.facts(run).get("before", {}), [*map(str, stored.differences(run))]
    return {}, []
