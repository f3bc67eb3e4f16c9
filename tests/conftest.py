"""What every test shares: no silent skips in CI, and long forms by `make soak`."""

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scratch import Scratch

# A block of megabytes is read and written in a few places: 2MiB would be cleared for each of them.
os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
# Threads that share out small products spin while they wait for a core that another test has.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs behind it
    signal.signal(signal.SIGINT, signal.default_int_handler)
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")
SOAK = os.environ.get("HOSTBENCH_SOAK") == "1"
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if MEMORY.is_dir() and not SOAK:
    # In memory where there is room and programs may run: a tenth of the time. A soak would fill it.
    _is = os.statvfs(MEMORY)
    if _is.f_bavail * _is.f_frsize >= ROOM and not _is.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
MUST_RUN_IN_CI = ("browser", "namespace", "asv")
GPU_TESTS = Path(__file__).parent / "gpu"
QUICK = ("core", "device", "facts", "judge", "limits", "measure")
"""Folders without a file that takes long. They come last, so that no core waits for another."""
WAITS = "test_hosts.py"
"""Comes first: it waits for deadlines, as others of its folder do, beside which no core works."""

ODD = "".join(map(chr, range(0x180))) + "\u0660\u2028\u202e\u6f22\ufeff\U0001f600"
"""Letters, signs and what surprises. All of Unicode would cost 10 s in a fresh checkout."""
SoakSeeds = Callable[[int, int], Iterator[int]]
_seed = pytest.StashKey[int]()


@pytest.fixture
def soak_seeds(request: pytest.FixtureRequest) -> SoakSeeds:
    """`for seed in soak_seeds(5, 500):` is 5 seeds in `make test` and 500 in `make soak`.

    A test that asks for it is marked soak by that alone; its failure names the seed.
    """

    def seeds(short: int, long: int) -> Iterator[int]:
        for seed in range(long if SOAK else short):
            request.node.stash[_seed] = seed
            yield seed

    return seeds


def pytest_configure() -> None:
    """Property tests try 25 examples, and 1000 in `make soak`. No deadline: a busy machine fails
    nothing. A GPU machine may be without hypothesis, and runs tests/gpu alone."""
    if find_spec("hypothesis"):
        from hypothesis import settings

        settings.register_profile("hostbench", max_examples=1000 if SOAK else 25, deadline=None)
        settings.load_profile("hostbench")


@pytest.fixture
def results(checkout: "Scratch", tmp_path: Path) -> Iterator[Path]:
    """A fresh results folder for a file's `checkout`, of which nothing may still run afterwards."""
    yield tmp_path / "results"
    assert checkout.wait_for_no_process() == []


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For commands in this process: the working directory, which is no checkout; a home, a machine
    called shelf without a GPU, a torch, no worker processes."""
    from hostbench import facts
    from hostbench.cli import measuring, trace
    from hostbench.facts.software import TorchState
    from hostbench.vcs import measure
    from tests.fakes.builders import InProcess

    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOSTBENCH_MACHINE", "shelf")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in ("HOSTBENCH_LAUNCHES", "HOSTBENCH_SIMULATION"):
        monkeypatch.delenv(name, raising=False)
    torch = TorchState(installed=True, importable=True, version="2.13.0", cuda_runtime="13.0")
    monkeypatch.setattr(facts, "probe_torch", lambda _: torch)
    monkeypatch.setattr(measuring, "become_subreaper", lambda: None)
    for module in (measure, trace):
        monkeypatch.setattr(module, "Launcher", InProcess)
    return tmp_path / "here"


@pytest.fixture
def unread() -> Iterator[IO[str]]:
    """A pipe whose reader has gone, to print to."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as file:
        yield file


@pytest.hookimpl(tryfirst=True)  # before pytest reads `-m soak`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test with a short form always runs; one that is only long waits for HOSTBENCH_SOAK=1."""
    waiting = []
    for item in items:
        is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if is_property or "soak_seeds" in getattr(item, "fixturenames", ()):
            item.add_marker("soak")
        elif item.get_closest_marker("soak") and not SOAK:
            waiting.append(item)
    if waiting:
        items[:] = [item for item in items if item not in waiting]
        config.hook.pytest_deselected(items=waiting)
    items.sort(key=lambda item: (item.path.name != WAITS, item.path.parent.name in QUICK))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported here stays: to look for garbage in it again and again takes a fifth of the
    time. In the tests it takes a twentieth, where that is done as often as Python does it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(50_000, 50, 50)


@pytest.fixture(scope="module", autouse=True)
def _what_stays() -> None:
    """A device that collects garbage between two cases need not look at what the files before
    have left either, as in the fork server."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marks = [name for name in MUST_RUN_IN_CI if item.get_closest_marker(name)]
    if IN_CI and marks and report.skipped and not hasattr(report, "wasxfail"):
        _fail(report, f"a test marked {marks[0]} may not be skipped in CI")
    if report.failed and _seed in item.stash:
        report.sections.append(("soak_seeds", f"seed {item.stash[_seed]}"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole file that skips itself would hide its marks: in CI only tests/gpu may."""
    report = yield
    if IN_CI and report.skipped and GPU_TESTS not in collector.path.parents:
        _fail(report, f"{collector.path.name} may not be skipped as a whole in CI")
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport, why: str) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"{why}. {reason}"
