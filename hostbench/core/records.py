"""What is kept of a run, from the worker's pipe to the archive: one struct a record.

Keys that a struct does not have are passed over, so that files and workers of other commits may say
more; missing ones get the field's default. JSON is the standard library's: asv's part of an archive
has a bare NaN for what was skipped, which msgspec refuses.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from msgspec import Meta, Struct, structs, to_builtins

from hostbench.core.case import Case
from hostbench.core.clock import epoch_s, is_storable
from hostbench.core.samples import median, quantile

FORMAT = 1
"""Of journals and archives."""
MAX_LAUNCHES = 10_000
CLOCKS = ("end_to_end_s", "call_s", "device_s")
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of each clock, that is kept of a launch: all figures come from the launches' medians."""
DAMAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What reading raises that is not, or no longer, what a writer wrote; msgspec's are ValueErrors."""

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Seconds = Annotated[float, Meta(ge=0, le=1e300)]
Name = Annotated[str, Meta(pattern=r"^(?!\.)[^/\\*?\[\]\x00-\x1f]+\Z")]
"""Fit for one part of a path, and no pattern."""
CommitId = Annotated[str, Meta(pattern=r"^[0-9a-f]{8,64}\Z")]
PROOF_FAILED = "proof failed"
"""How the reason begins of a case whose proof failed: its number is kept, but does not count."""
DISTURBED_SHARE = 0.1
"""A launch is disturbed by so much more of the time than the usual one."""
_DISTURBS = {"steal_s": "the hypervisor took a core", "waiting_s": "processes waited for a core"}
Proof = Annotated[str, Meta(pattern=r"^(passed|failed|unavailable)(:|\Z)")]
FindingValue = bool | int | float | str | None
Status = Literal["ok", "skipped", "failed"]
FactGroups = Mapping[str, Mapping[str, Any]]
"""Group -> name -> what `hostbench.facts.record.Fact` is."""


class RunHeader(Struct, frozen=True, kw_only=True):
    """What is known of a run before its first case. Times are ISO 8601 in UTC."""

    run_id: Name
    """`<UTC start>-<commit8 or nogit>-<4 hex digits>`."""
    machine: Name
    commit: CommitId | None
    """40 hex digits; None without git."""
    committed_at: str | None
    scratch: str | None
    """Why the run is never judged nor given to asv (`quick`, `uncommitted changes`, ...)."""
    profile: str
    launches: Annotated[int, Meta(ge=1, le=MAX_LAUNCHES)]
    device: str
    started_at: str
    hostbench: str
    planned: tuple[str, ...] = ()
    """Every case the run means to measure, so that what is missing can be told."""
    by: str = "hostbench run"
    """`hostbench run`, `hostbench ab`, or `asv` when asv measured by itself."""
    interleaved_with: Name | None = None
    """run_id of the run of another code whose launches were interleaved with this one's."""

    def __post_init__(self) -> None:
        _check_time(self.started_at)
        if self.committed_at is not None:
            _check_time(self.committed_at)


class Measurement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything learned about one case in one launch. The three clocks are in seconds per step: of
    each the five QUANTILES of its samples, once it is in a record."""

    end_to_end_s: tuple[Seconds, ...] = ()
    """Host clock around `depth` steps and one synchronize, over `depth`: what asv gets."""
    call_s: tuple[Seconds, ...] = ()
    """Host clock until the last of the `depth` calls returned, over `depth`."""
    device_s: tuple[Seconds, ...] = ()
    """Between two events on the device, over `depth`. Empty of a step that enqueues nothing, has
    streams of its own, or waits: that clock would hold the host's time."""
    findings: dict[str, FindingValue] = {}
    """What the case turned out to do; None where it could not be found out."""
    proofs: dict[str, Proof] = {}
    """Proof name to `passed`, `failed: why` or `unavailable: why`."""
    memory: dict[str, Count] = {}
    """`peak_allocated`, in bytes, where the device counts."""
    ranks: dict[str, Seconds] = {}
    """Rank -> median end-to-end seconds of that rank alone; empty without ranks."""
    sent: dict[str, Count] = {}
    """Rank -> bytes that it sent per step in one counted reading; empty where nobody counted."""
    noise: dict[str, float] = {}
    """What disturbed it while it was sampled: `measure.noise` says how each is counted."""
    traceback: str | None = None
    trace: tuple[dict[str, Any], ...] = ()
    """Events of a Chrome trace of one sample of `num_steps` steps; no run that is kept has any."""
    num_steps: Count | None = None

    def thinned(self) -> Self:
        """Of each clock's samples the QUANTILES, the middle of which is their median: to seven
        digits, which no clock here exceeds."""
        clocks = {}
        for clock in CLOCKS:
            samples = getattr(self, clock)
            if len(samples) > len(QUANTILES):
                samples = [quantile(samples, q) for q in QUANTILES]
            clocks[clock] = tuple(float(f"{value:.7g}") for value in samples)
        return structs.replace(self, **clocks)


class CaseRecord(Struct, frozen=True, kw_only=True):
    """One case in one launch."""

    case: Case
    version: str
    launch: Annotated[int, Meta(ge=0, lt=MAX_LAUNCHES)]
    status: Status
    """A case that was not measured has no record."""
    reason: str | None
    started_at: str
    seconds: Seconds | None
    """Median of the launch's end-to-end samples; None unless ok, or failed by a proof."""
    nbytes: Count | None = None
    measurement: Measurement = Measurement()
    expected: dict[str, bool] = {}

    def __post_init__(self) -> None:
        _check_time(self.started_at)


class FactsLine(Struct, frozen=True, kw_only=True):
    """A line of the journal: the facts as they were `before`, `during`, `after`, ..."""

    when: str
    facts: FactGroups


class Finish(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended; there is none where the writer was killed."""

    at: str
    status: str
    """`complete` or `interrupted`."""
    scratch: str | None = None
    """Of a journal: why the run turned out to be scratch while it went on."""


class Run(Struct, frozen=True, kw_only=True):
    """A run as its journal holds it so far, or as it is archived."""

    format: int = FORMAT
    header: RunHeader
    facts: dict[str, FactGroups] = {}
    """`before`, `after`, ... -> facts."""
    finish: Finish | None = None
    damaged: list[Count] = []
    """Numbers of the journal's lines that could not be read; a half-written last one is normal."""
    records: tuple[CaseRecord, ...]

    @property
    def run_id(self) -> str:
        return self.header.run_id

    @property
    def facts_before(self) -> FactGroups:
        """Facts before the first case."""
        return self.facts.get("before", {})

    @property
    def is_complete(self) -> bool:
        """Whether its writer came to the end."""
        return self.finish is not None and self.finish.status == "complete"

    @property
    def is_whole(self) -> bool:
        """It ended by itself, not told to stop or cut off, and came to every planned case."""
        return self.is_complete and not self.not_measured()

    @property
    def measured_launches(self) -> int:
        """The most that any case has."""
        records = self.winners().values()
        measured = Counter(record.case for record in records if record.seconds is not None)
        return max(measured.values(), default=0)

    def winners(self) -> dict[tuple[Case, int], CaseRecord]:
        """The record that counts for each case and launch: the latest."""
        return {(record.case, record.launch): record for record in self.records}

    def disturbed_launches(self) -> list[str]:
        """Those in which what disturbs took far more of the sampled time than in the others."""
        totals: dict[int, Counter[str]] = {}
        for record in self.records:
            if record.measurement.noise:
                totals.setdefault(record.launch, Counter()).update(record.measurement.noise)
        texts = []
        for name, what in _DISTURBS.items():
            shares = {n: total[name] / total["seconds"] for n, total in totals.items()}
            usual = median([*shares.values()]) if shares else 0.0
            texts += [
                f"launch {n + 1} was disturbed: {what} for {share:.0%} of the time, "
                f"usually {usual:.0%}"
                for n, share in sorted(shares.items())
                if share > usual + DISTURBED_SHARE
            ]
        return texts

    def not_measured(self) -> list[str]:
        """Planned cases without any record."""
        measured = {str(case) for case in {record.case for record in self.records}}
        return [text for text in self.header.planned if text not in measured]


class Settings(Struct, frozen=True, kw_only=True):
    """How long a case is measured in a launch."""

    budget_s: float = 0.12
    """Sampling time: as many samples as fit, and MIN_SAMPLES in any case."""
    warmup_s: float = 0.5
    """The most that warm-up after the first step may take; one more step it always is."""

    def shortened(self, share: float) -> Self:
        """With that share of the time."""
        budget_s, warmup_s = share * self.budget_s, share * self.warmup_s
        return structs.replace(self, budget_s=budget_s, warmup_s=warmup_s)


class Launch(Struct, frozen=True, kw_only=True):
    """What a fresh worker is asked for: cases in the order they are measured, family by family."""

    number: int = 0
    settings: Settings = Settings()
    device: str | None = None
    """A device that stands in for the one each case names (`simulated`); None: as named."""
    deadline_s: float = 60.0
    """A case that takes longer is killed and failed; the rest goes on in a new worker."""
    variables: Mapping[str, str] = {}
    """Of the environment that its worker is started with; an empty text: without the variable."""
    observe: bool = False
    """Gather evidence (`hostbench.measure.evidence`) instead of timing."""
    observes_after: bool = False
    """Gather it of each step right after its timing, too: a record of the launch after this one.
    The cases that follow are timed with a profiler loaded."""
    trace: bool = False
    """Observe each of them right after its timing, and keep the events of that."""
    cases: tuple[Case, ...]


# What comes back from the fork server and its workers, a line each.


class Process(Struct, frozen=True, kw_only=True, tag_field="event", tag="process"):
    """The server has imported everything, or has a worker for a launch."""

    pid: int
    hostbench: str = ""
    """The file that the server imported."""


class Started(Struct, frozen=True, kw_only=True, tag_field="event", tag="start"):
    """A worker begins with a case, or goes on with it."""

    record: CaseRecord
    """What is kept where it goes no further: a failure without a reason."""
    opening: str = ""
    """The device that it starts now, which may take long or never end."""
    lost: str = ""
    """Why the device does not work, though this machine has it: the worker ends."""


class Done(Struct, frozen=True, kw_only=True, tag_field="event", tag="case"):
    """A case has come to its end."""

    record: CaseRecord


class Exited(Struct, frozen=True, kw_only=True, tag_field="event", tag="exit"):
    """A worker is gone, with this wait status."""

    status: int


Message = Process | Started | Done | Exited


def encoded(record: Struct | Mapping[str, Any]) -> bytes:
    """One line of JSON, in which half a character, as no file and no table holds it, is escaped: a
    workload's texts may have one."""
    return json.dumps(_escaped(to_builtins(record))).encode() + b"\n"


def environment_of(run_id: str) -> str | None:
    """asv's environment in such a run_id; None for hostbench's own, whose points continue a run's
    series, and for the id of a run."""
    name = run_id[len("asv-") + 8 + 1 :] if run_id.startswith("asv-") else ""
    return None if not name or name.startswith("hostbench-") else name


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(name): _escaped(item) for name, item in value.items()}
    return [*map(_escaped, value)] if isinstance(value, list | tuple) else value


def _check_time(text: str) -> None:
    if not is_storable(epoch_s(text)):
        raise ValueError(f"{text!r:.60} is not in the years 1678 to 2261")
