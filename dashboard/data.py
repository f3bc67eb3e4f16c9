"""What is stored, as the pages ask for it; kept while no stored file has changed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import pandas as pd
import stored
import streamlit as st
from derive_compare import newest, table
from derive_machines import limits
from derive_runs import listed
from derive_trend import MODEL
from words import hardware, only

from hostbench import families
from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored
from hostbench.judge.compare import Comparison, compare
from hostbench.judge.grid import group_of, marked, settings
from hostbench.report import side_runs
from hostbench.report.answer import Answer, Unanswered, by_family
from hostbench.report.comparison import notes
from hostbench.report.comparison import page as comparison_page
from hostbench.report.doctor import Diagnosis, of_stored
from hostbench.report.night_history import facts_moved
from hostbench.report.one_run import about, facts, proofs
from hostbench.report.page import as_json
from hostbench.report.questions import answers
from hostbench.report.rows import rows_of as questioned
from hostbench.report.setups import changes
from hostbench.report.side_runs import SideRuns
from hostbench.report.sides import Key, both
from hostbench.report.table import markdown
from hostbench.store.columns import ABOUT, STATUSES
from hostbench.store.history import History
from hostbench.store.runs import AboutRun

_HOW = dict.fromkeys(ABOUT, "first") | dict.fromkeys((*STATUSES, "unexpected"), "sum")
_LATER, _LAST = 6, 12
"""Each more than every lesser reason to show a run later, taken together."""
NO_MACHINE = "(not named yet)"


def runs(folder: stored.Place) -> pd.DataFrame:
    """A row for each run, the newest first: machine, run_id, hostbench.store.columns.ABOUT, the
    number of rows of each status, `unexpected`, `device` (`simulated`, else missing); of our own
    runs also profile, launches, measured, by, complete (else missing).

    Raises UsageError when there is no such folder, like all that follow.
    """
    return _runs(str(folder), stored.signature(folder)).copy(deep=False)


@st.cache_resource(max_entries=4, show_spinner=False)
def _runs(folder: str, signature: int) -> pd.DataFrame:
    runs = stored.kept(folder, signature, "runs_counted")
    runs = runs.assign(machine=runs["machine"].fillna(NO_MACHINE))
    about = [asdict(run) for run in stored.history(folder, signature).runs()]
    columns = ["run_id", "profile", "launches", "measured", "by", "complete"]
    headers = pd.DataFrame(about, columns=columns)
    runs = runs.merge(headers, on="run_id", how="left")
    return runs.sort_values("started_at", ascending=False, kind="stable", ignore_index=True)


def listed_runs(folder: stored.Place, machine: str | None) -> tuple[pd.DataFrame, list[str]]:
    """derive_runs.listed of all runs or a machine's, and what each is called: run@machine. Shared,
    so only read them."""
    return _listed_runs(str(folder), machine, stored.signature(folder))


@st.cache_resource(max_entries=8, show_spinner=False)
def _listed_runs(
    folder: str, machine: str | None, signature: int
) -> tuple[pd.DataFrame, list[str]]:
    found = _runs(folder, signature)
    found = found if machine is None else found[found["machine"] == machine]
    names = [f"{run}@{where}" for run, where in zip(found["run_id"], found["machine"], strict=True)]
    return listed(found.reset_index(drop=True)), names


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """All that were ever measured or simulated; shared, so only read it."""

    names: list[str]
    """The one with the newest run first; what is only simulated comes last."""
    simulated: set[str]
    """Those that nothing was measured on."""
    groups: list[str]
    """The same as series name them: machine/environment of one that has several environments of
    asv's."""
    models: dict[str, list[str]]
    """`hardware:NAME` -> the groups of its machines, where several machines have it."""


def every_machine(folder: stored.Place) -> Machines:
    return _every_machine(str(folder), stored.signature(folder))


@st.cache_resource(max_entries=4, show_spinner=False)
def _every_machine(folder: str, signature: int) -> Machines:
    found = _runs(folder, signature)
    is_simulated = found["device"] == "simulated"
    simulated = set(found["machine"][is_simulated]) - set(found["machine"][~is_simulated])
    names = sorted(dict.fromkeys(found["machine"]), key=simulated.__contains__)
    setting = pd.Series(settings(found).astype(str), index=found.index)
    here = {name: dict.fromkeys(setting[found["machine"] == name]) for name in names}
    groups = [group_of(name, one, len(own)) for name, own in here.items() for one in own]
    having = found[["hardware", "machine"]].dropna().drop_duplicates()
    models = {
        f"{MODEL}{name}": [one for one in groups if one.partition("/")[0] in set(own)]
        for name, own in having.groupby("hardware", sort=False, observed=True)["machine"]
        if len(own) > 1
    }
    return Machines(names=names, simulated=simulated, groups=groups, models=models)


def machines(folder: stored.Place) -> list[str]:
    return every_machine(folder).names


def newest_of(folder: stored.Place, machine: str) -> pd.DataFrame:
    """A row for each family of hostbench's own workloads: the newest run that came to it, with the
    family's counts. hostbench's own runs before asv's, what may be judged before scratch, then
    those of a few cases that somebody chose, and what is partial last: cut off before its last
    launch, or before a case of the family."""
    return _newest_of(str(folder), stored.signature(folder), machine)


@st.cache_data(max_entries=64, show_spinner=False)
def _newest_of(folder: str, signature: int, machine: str) -> pd.DataFrame:
    found = stored.kept(folder, signature, "counts", _named(machine))
    found = found[found["own"].astype(bool)]
    came_to = found[found[["ok", "skipped", "failed"]].sum(axis=1) > 0]
    kind = came_to["scratch"].notna().where(came_to["source"] != "asv", 2)
    simulated = came_to["run_id"].isin(came_to["run_id"][came_to["device"] == "simulated"])
    partial = came_to["run_id"].isin(_cut_off(_runs(folder, signature))) | (
        came_to["not measured"] > 0
    )
    narrow = _is_narrow(came_to, [came_to["family"], came_to["source"] == "asv", simulated])
    rank = 2 * kind.astype(int) + simulated + _LATER * narrow + _LAST * partial
    order = came_to.assign(rank=rank).sort_values(
        ["rank", "started_at"], ascending=[True, False], kind="stable"
    )
    chosen = order.drop_duplicates("family")[["family", "run_id"]]
    kept = found.merge(chosen, on=["family", "run_id"])
    summed: pd.DataFrame = kept.groupby(["family", "run_id"], sort=False).agg(_HOW).reset_index()
    return summed


def _is_narrow(counts: pd.DataFrame, alike: list[Any]) -> Any:
    """Runs that planned less than half of the cases of the widest of their kind."""
    num = counts[[*STATUSES]].sum(axis=1)
    num = num.groupby([counts["family"], counts["run_id"]]).transform("sum")
    return num < num.groupby(alike).transform("max") / 2


def _cut_off(runs: pd.DataFrame) -> list[str]:
    """Runs that ended before their last launch."""
    few = runs["complete"].eq(False) & (runs["measured"] < runs["launches"])
    return [str(one) for one in runs["run_id"][few]]


def has_own() -> bool:
    """Whether any run measured hostbench's own workloads, or those of a project of one's own; also
    where there is nothing yet."""
    folder = stored.results_folder()
    try:
        return _has_own(str(folder), stored.signature(folder))
    except UsageError:
        return True


@st.cache_resource(max_entries=4, show_spinner=False)
def _has_own(folder: str, signature: int) -> bool:
    place = stored.place_of(folder)
    found = _runs(folder, signature)
    asv_alone = set(found["machine"]) - set(found["machine"][found["source"] != "asv"])
    names = sorted(machines(place), key=asv_alone.__contains__)
    return not names or any(len(newest_of(place, name)) for name in names)


def rows_of(folder: stored.Place, machine: str, run_id: str) -> pd.DataFrame:
    """The tidy frame's rows of one run."""
    rows = stored.asked(folder, "of_runs", [run_id], _named(machine))
    return rows.assign(machine=rows["machine"].fillna(NO_MACHINE))


def series(folder: stored.Place, machine: str) -> pd.DataFrame:
    """A row for each series of a machine, the first measured first: workload, case, has_number."""
    return stored.asked(folder, "series", _named(machine))


def trend(folder: stored.Place, group: str, case: str) -> pd.DataFrame:
    """The rows of one series, the oldest first; points with few launches are scratch. Shared, so
    only read them."""
    return _trend(str(folder), group, case, stored.signature(folder))


@st.cache_resource(max_entries=16, show_spinner=False)
def _trend(folder: str, group: str, case: str, signature: int) -> pd.DataFrame:
    machine, _, setting = group.partition("/")
    rows = marked(stored.history(folder, signature).trend(_named(machine), case))
    return rows[settings(rows) == setting] if setting else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """What its archive says of a run; shared, so only read it."""

    about: list[tuple[str, str]]
    facts: pd.DataFrame
    proofs: pd.DataFrame
    before: str | None
    """run_id of the machine's run before it."""
    lasting: tuple[str, ...]
    passing: tuple[str, ...]
    """Facts that differ from that run's and may be causes, in words, the likeliest first."""
    document: bytes
    """The run as `report --format json` has it."""
    archives: list[Path]
    """Its files, a part each; none of a table at a URL."""


def one_run(folder: stored.Place, machine: str, run_id: str) -> OneRun | None:
    """None where it has no archive: asv's own file."""
    return _one_run(str(folder), machine, run_id, stored.signature(folder))


@st.cache_resource(max_entries=16, show_spinner="Reading the run ...")
def _one_run(folder: str, machine: str, run_id: str, signature: int) -> OneRun | None:
    history = stored.history(folder, signature)
    own = [run for run in history.runs() if run.machine == _named(machine)]
    place = next((at for at, run in enumerate(own) if run.run_id == run_id), None)
    if place is None:
        return None
    whole = history.whole(own[place])
    earlier = next((run for run in reversed(own[:place]) if run.device == own[place].device), None)
    lasting, passing = facts_moved(history.whole(earlier), whole) if earlier else ((), ())
    return OneRun(
        about=about(whole),
        facts=facts(history.facts(own[place])),
        proofs=proofs(whole),
        before=earlier.run_id if earlier else None,
        lasting=lasting,
        passing=passing,
        document=json.dumps(as_json(history.rows_of(own[place]), whole), indent=1).encode(),
        archives=history.archives(own[place]),
    )


def archive(folder: stored.Place, path: Path) -> bytes:
    """One of OneRun.archives as it lies there. Raises OSError where it has gone, or lies outside of
    the folder."""
    assert isinstance(folder, Path)
    return read_stored(path, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a machine's newest runs answer; shared, so only read it."""

    told: list[Answer]
    untold: Unanswered
    runs: dict[str, str]
    """Family -> the run that was asked."""
    hardware: str


def answered(folder: stored.Place, machine: str) -> Answered:
    """Each family's newest run asked its questions."""
    return _answered(str(folder), machine, stored.signature(folder))


@st.cache_resource(max_entries=16, show_spinner="Asking the newest runs ...")
def _answered(folder: str, machine: str, signature: int) -> Answered:
    place = stored.place_of(folder)
    newest = newest_of(place, machine)
    runs = dict(zip(newest["family"], newest["run_id"], strict=True))
    told: list[Answer] = []
    untold: Unanswered = {}
    measured_on: dict[str, None] = {}
    for family in (one for one in dict.fromkeys([*families.names(), *runs]) if one in runs):
        rows = rows_of(place, machine, runs[family])
        rows = rows[rows["family"] == family]
        measured_on[hardware(rows)] = None
        for _, own, not_told in by_family(answers(questioned(rows))):
            told += own
            for why, questions in not_told.items():
                untold.setdefault(why, []).extend(questions)
    return Answered(told=told, untold=untold, runs=runs, hardware="; ".join(measured_on))


def family_run(
    folder: stored.Place, machine: str, run_id: str, family: str
) -> dict[str, tuple[pd.DataFrame, list[Answer], Unanswered]]:
    """Device -> the rows that a run has of a family's workloads there, what they answer and what
    not; a case that has no device is on all. Shared, so only read it."""
    return _family_run(str(folder), machine, run_id, family, stored.signature(folder))


@st.cache_resource(max_entries=32, show_spinner=False)
def _family_run(
    folder: str, machine: str, run_id: str, family: str, signature: int
) -> dict[str, tuple[pd.DataFrame, list[Answer], Unanswered]]:
    rows = rows_of(stored.place_of(folder), machine, run_id)
    rows = rows[(rows["family"] == family) & rows["workload"].isin(list(families.load((family,))))]
    found = {}
    for device in list(rows["device"].dropna().unique()) or ["cpu"] * bool(len(rows)):
        own = rows[(rows["device"] == device) | rows["device"].isna()]
        every = by_family(answers(questioned(own)))
        found[str(device)] = own, *next(((told, not_told) for _, told, not_told in every), ([], {}))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineToday:
    """What the newest runs of a machine say of it; shared, so only read it."""

    hardware: str
    limits: pd.DataFrame
    """Of its newest runs, the best rate at each limit: derive_machines.limits."""


def machine(folder: stored.Place, name: str) -> MachineToday:
    return _machine(str(folder), name, stored.signature(folder))


@st.cache_resource(max_entries=64, show_spinner="Reading the machines ...")
def _machine(folder: str, name: str, signature: int) -> MachineToday:
    place = stored.place_of(folder)
    history, runs = stored.history(folder, signature), newest_of(place, name)["run_id"].unique()
    rows = history.of_runs([str(one) for one in runs], _named(name))
    return MachineToday(hardware=only(rows, "hardware", ""), limits=limits(rows))


def doctors(folder: stored.Place) -> dict[str, list[Diagnosis]]:
    """What is wrong with each machine by the facts of its newest run, the worst first; empty where
    none are stored."""
    return _doctors(str(folder), stored.signature(folder))


@st.cache_resource(max_entries=4, show_spinner=False)
def _doctors(folder: str, signature: int) -> dict[str, list[Diagnosis]]:
    history = stored.history(folder, signature)
    newest = {run.machine or NO_MACHINE: run for run in history.runs()}
    place = stored.place_of(folder)
    return {
        name: _doctor(folder, newest[name], history) if name in newest else []
        for name in machines(place)
    }


@st.cache_resource(max_entries=256, show_spinner="Reading the machines ...")
def _doctor(folder: str, run: AboutRun, _history: History) -> list[Diagnosis]:
    known = _history.facts(run).get("before", {})
    return of_stored(known) if known else []


def setup_changes(folder: stored.Place) -> pd.DataFrame:
    """A row for each fact that changed on a machine, the newest first: `machine` and
    hostbench.report.setups.COLUMNS."""
    return _setup_changes(str(folder), stored.signature(folder))


@st.cache_data(max_entries=4, show_spinner=False)
def _setup_changes(folder: str, signature: int) -> pd.DataFrame:
    history = stored.history(folder, signature)
    place = stored.place_of(folder)
    found = [changes(history.setups(_named(name))).assign(machine=name) for name in machines(place)]
    every = pd.concat(found, ignore_index=True)
    return every.sort_values("since", ascending=False, kind="stable", ignore_index=True)


def sides(folder: stored.Place) -> pd.DataFrame:
    """What `hostbench compare` may name: a row for each run, the oldest first (History.sides)."""
    return stored.asked(folder, "sides")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSides:
    """Two sides, compared; shared, so only read it."""

    found: dict[Key, Comparison]
    rows: pd.DataFrame
    """derive_compare.table"""
    notes: tuple[str, ...]
    """What has to be known to read the verdicts."""
    markdown: str
    """As `hostbench compare` writes it."""


def comparison(folder: stored.Place, names: tuple[str, str], machine: str | None) -> ComparedSides:
    """As `hostbench compare`, of the newest runs of each side.

    Raises HostbenchError where two sides cannot be compared.
    """
    return _comparison(str(folder), names, machine, stored.signature(folder))


@st.cache_resource(max_entries=4, show_spinner="Comparing ...")
def _comparison(
    folder: str, names: tuple[str, str], machine: str | None, signature: int
) -> ComparedSides:
    history = stored.history(folder, signature)
    runs = history.sides()
    runs = runs if machine is None else runs[runs["machine"] == machine]
    counted = history.runs_counted().set_index("run_id")[[*STATUSES]].sum(axis=1)
    num_rows = {str(run_id): int(num) for run_id, num in counted.groupby(level=0).max().items()}
    asked = side_runs.chosen(runs, names, lambda _: None)
    first, second = (newest(side, num_rows) for side in asked)
    read = both(first, second, history)
    found = compare(read.series, read.interleaved, read.confounded)
    again = f"hostbench compare {' '.join(map(quote, names))}"
    said = comparison_page(found, read, (first.called, second.called), again)
    return ComparedSides(
        found=found,
        rows=table(found, read.in_bytes & found.keys()),
        notes=(*_left_out(asked, (first, second)), *notes(found, read)),
        markdown=markdown(said),
    )


def _left_out(asked: Sequence[SideRuns], read: Sequence[SideRuns]) -> Iterator[str]:
    for whole, part in zip(asked, read, strict=True):
        if len(part.rows) < len(whole.rows):
            yield (
                f"of {whole.called} the newest {len(part.rows)} of {len(whole.rows)} runs are "
                "compared; `hostbench compare` takes all"
            )


def _named(machine: str) -> str | None:
    return None if machine == NO_MACHINE else machine
