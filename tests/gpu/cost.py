"""What a run costs on a machine with GPUs: processes, starts of CUDA, cases, estimated seconds.

The processes are counted by walking the run's own plan with a launcher that starts none. Seconds
are estimated from the constants of `Costs`, which are assumptions: no CUDA line of hostbench had
run when they were written. `scripts/gpu-cost` prints them and takes others.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hostbench.core.case import Case, parse_selector
from hostbench.core.records import Launch, Measurement, Outcome
from hostbench.measure.measure import PROBE_DELAY_S, PROBES, Settings
from hostbench.measure.workload import Workload
from hostbench.ranks.backends import BACKENDS
from hostbench.runner import session
from hostbench.runner.plan import QUICK, STANDARD, Plan, choose
from hostbench.runner.progress import Bar
from tests.gpu.budget import BUDGETS, OWN_S

ONCE = STANDARD.of(1)
"""How tests/gpu/test_run.py measures every case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds, all assumed."""

    cuda_start_s: float = 3.0
    """A process starts CUDA and ends it again, on a machine with several GPUs: it enumerates all of
    them. Reports go from half a second for one GPU (NVIDIA/nvtrust#113) to 1 s and more for each
    (rapidsai/dask-cuda#198); without persistence mode it is more (arrayfire/arrayfire#2467)."""
    nccl_start_s: float = 0.5
    """A process group of GPUs of one host, and its first all-reduce."""
    import_s: float = 2.0
    """A Python that imports a CUDA build of torch: the probe at the start, and the fork server."""
    settle_s: float = 0.4
    """A little over `_SETTLE_LEAST_S` of device/cuda.py: the launch before woke the clocks."""
    build_s: float = 0.05
    """Buffers, their pattern and the check of the data of a case; the device clock's pass."""
    observe_s: float = 0.2
    """A case of the observing pass: two steps, Kineto, and the link's counters."""
    once_s: float = 1.0
    """Facts before and after, and the host's memory copy."""


@dataclass(slots=True)
class Count:
    """Of one run; `hostbench` itself and its fork server start no CUDA and are not counted."""

    workers: int = 0
    pools: int = 0
    ranks: int = 0
    """Those that start CUDA; of a pool that is refused no rank does."""
    in_workers: int = 0
    """Cases timed by a worker itself."""
    sampled: float = 0.0
    """The same, a case of a workload that samples for half of the time as a half."""
    in_ranks: int = 0
    observed: int = 0
    skipped: int = 0
    starting: int = 0
    """Workers that start CUDA themselves."""
    servers: int = 1
    """Fork servers: one for each environment."""

    @property
    def processes(self) -> int:
        """And the one that asks torch whether CUDA works."""
        return 1 + self.workers + self.ranks

    @property
    def cuda_starts(self) -> int:
        return 1 + self.starting + self.ranks

    @property
    def cases(self) -> int:
        return self.in_workers + self.in_ranks + self.observed

    def seconds(self, costs: Costs, settings: Settings) -> float:
        """Estimated. The ranks of a pool start side by side, all else one after the other."""
        sampling_s = settings.warmup_s + settings.budget_s
        return (
            costs.once_s
            + (1 + self.servers) * costs.import_s
            + (1 + self.starting + self.pools) * costs.cuda_start_s
            + (self.starting + self.pools) * costs.settle_s
            + self.pools * costs.nccl_start_s
            + self.in_workers * (costs.build_s + PROBES * PROBE_DELAY_S)
            + self.in_ranks * costs.build_s
            + (self.sampled + self.in_ranks) * sampling_s
            + self.observed * costs.observe_s
        )


def count(plan: Plan, workloads: Mapping[str, Workload], num_gpus: int) -> Count:
    """The processes and cases of a run on a machine with so many GPUs, where nothing fails."""
    counting = _Counting(workloads, num_gpus)
    for _ in session.records(plan, workloads, counting, Bar(io.StringIO())):  # type: ignore[arg-type]
        pass
    return counting.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What `make gpu-check` runs: a process for each file, and these runs of hostbench."""

    every: Count
    quick: Count
    nccl: Count
    num_starting: int = len(OWN_S) + 2
    """The files that start CUDA themselves, the probe of `check`, and a process that breaks its
    CUDA on purpose."""
    num_waiting: int = len(BUDGETS) - len(OWN_S)
    """The files that wait for runs."""

    @property
    def runs(self) -> tuple[Count, ...]:
        return self.every, self.quick, self.nccl

    @property
    def processes(self) -> int:
        return self.num_starting + self.num_waiting + sum(run.processes for run in self.runs)

    @property
    def cuda_starts(self) -> int:
        return self.num_starting + sum(run.cuda_starts for run in self.runs)

    @property
    def cases(self) -> int:
        return sum(run.cases for run in self.runs)

    def seconds(self, costs: Costs) -> float:
        start_s = costs.import_s + costs.cuda_start_s + costs.settle_s
        own_s = self.num_starting * start_s + self.num_waiting * costs.import_s
        own_s += sum(OWN_S.values())
        return own_s + sum(run.seconds(costs, ONCE.settings) for run in self.runs)


def of_check(workloads: Mapping[str, Workload], num_gpus: int) -> Check:
    every = Plan(profile=ONCE, cases=choose(workloads, "cuda"))
    quick = Plan(profile=QUICK.of(1), cases=choose(workloads, "cuda", quick=True))
    two = parse_selector("collectives.all_reduce[nbytes=1MiB]")
    ranks = [
        case
        for case in choose(workloads, "cuda", selectors=[two])
        if case.values["num_ranks"] in (1, 2)
    ]
    return Check(
        every=count(every, workloads, num_gpus),
        quick=count(quick, workloads, num_gpus),
        nccl=count(Plan(profile=ONCE, cases=tuple(ranks)), workloads, 1),
    )


class _Counting:
    """Stands in for the Launcher: no process, and each case is ok or skipped at once."""

    def __init__(self, workloads: Mapping[str, Workload], num_gpus: int) -> None:
        self.count = Count()
        self._workloads, self._num_gpus = workloads, num_gpus
        self._environments: list[dict[str, str]] = [{}]

    def run(self, launch: Launch) -> Iterator[Outcome]:
        count, pool = self.count, 0
        count.workers += 1
        if dict(launch.variables) not in self._environments:
            self._environments.append(dict(launch.variables))
            count.servers += 1
        count.starting += any(self._num_ranks(case) is None for case in launch.cases)
        for position, case in enumerate(launch.cases):
            num_ranks = self._num_ranks(case)
            if self._refuses(case):
                count.skipped += 1
                yield Outcome(case=case, position=position, status="skipped", reason="too few")
                continue
            if num_ranks is not None and num_ranks != pool:
                pool = num_ranks
                count.pools += 1
                count.ranks += num_ranks
            if launch.observe:
                count.observed += 1
            elif num_ranks is None:
                count.in_workers += 1
                count.sampled += self._workloads[case.workload].sampling
            else:
                count.in_ranks += 1
            seconds = None if launch.observe else 1.0
            measured = Measurement(proofs={"copies": "passed"})
            yield Outcome(
                case=case, position=position, status="ok", seconds=seconds, measurement=measured
            )

    def _num_ranks(self, case: Case) -> int | None:
        return self._workloads[case.workload].num_ranks(case)

    def _refuses(self, case: Case) -> bool:
        """As the worker, or the ranks' backend, would."""
        num_ranks = self._num_ranks(case)
        if num_ranks is not None:
            return (
                BACKENDS[str(case.values["device"])].refusal(num_ranks, self._num_gpus) is not None
            )
        return self._workloads[case.workload].refusal(case, self._num_gpus) is not None
