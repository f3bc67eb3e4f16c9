"""The registry, and what asv sees of it: names, versions and axes are history."""

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

from hostbench import families
from hostbench.cli.sync import source
from hostbench.core.asv_names import class_name
from hostbench.core.case import AxisValue
from hostbench.core.errors import UsageError
from hostbench.device.base import Device, Step
from hostbench.device.simulated import SimulatedDevice
from hostbench.families import load
from hostbench.measure import evidence, workload
from hostbench.measure.measure import Settings, measure
from hostbench.measure.workload import DEVICES, Workload, prepare
from tests import series

ROOT = Path(__file__).parent.parent.parent
WORKLOADS = load()
WORK_FAMILIES = families.names()
every_workload = pytest.mark.parametrize("work", WORKLOADS.values(), ids=WORKLOADS)
without_ranks = pytest.mark.parametrize(
    "work", [work for work in WORKLOADS.values() if work.ranks is None], ids=lambda work: work.name
)


def test_history_goes_on() -> None:
    """A series is its name, version and axes. The list is written anew on purpose alone: what is
    added is promised from then on, whatever else changes tears a line in every dashboard."""
    assert [*series.lines()] == series.GOLDEN.read_text().splitlines(), (
        "a series was added or changed. If it shall be so, run `python -m tests.series`; where an "
        "old one changed, bump the version of its workload as well"
    )


@every_workload
def test_axes_are_the_parameters_and_device_is_first(work: Workload) -> None:
    assert tuple(inspect.signature(work.build).parameters) == tuple(work.axes)
    assert next(iter(work.axes)) == "device"
    assert work.axes["device"] == DEVICES


@every_workload
def test_it_says_what_is_timed(work: Workload) -> None:
    assert work.question.endswith(".")
    homes = (f"hostbench.families.{work.family}", f"hostbench.families.{work.family}.workloads")
    assert work.build.__module__ in homes


@every_workload
def test_cases_are_unique_and_whole(work: Workload) -> None:
    cases = list(work.cases())
    assert len(cases) == len(set(cases)) == len(set(map(str, cases)))
    assert all(list(case.values) == list(work.axes) for case in cases)
    workload.check(work)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", families.names())
def test_a_quick_run_has_a_few_cases(family: str, device: str) -> None:
    """In two minutes for all families: so many whole times for samples, or more that take less."""
    shares = [
        work.sampling
        for work in load((family,)).values()
        for case in work.cases()
        if work.is_quick(case) and case.values["device"] == device
    ]
    assert 3 <= len(shares) and sum(shares) <= (20 if family == "transfer" else 10)


REFUSED = ("allocation.mixed", "allocation.batch")
"""What the simulated device has no figures for."""


@without_ranks
def test_every_case_does_what_it_declares_on_the_simulated_device(work: Workload) -> None:
    for case in work.cases():
        if case.values["device"] == "cuda":
            device = SimulatedDevice()
            if device.lacks.keys() & set(work.needed(case)):
                assert work.name in REFUSED
                continue
            result = measure(device, prepare(work, device, case), Settings(max_samples=3))
            seen = evidence.gather(device, prepare(work, device, case))
            assert min(result.end_to_end_s) > 0
            expected = work.expected(case)
            for name, value in {**result.findings, **seen.findings}.items():
                assert value is None or value == expected.get(name, value), (case, name)
            assert "failed" not in f"{result.proofs}{seen.proofs}", case


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Workload]:
    empty: dict[str, Workload] = {}
    monkeypatch.setattr(workload, "_REGISTRY", empty)
    return empty


def step(device: Device, size: int) -> Step:
    """A step for tests."""
    return lambda: None


def test_registering(registry: dict[str, Workload]) -> None:
    axes: dict[str, tuple[AxisValue, ...]] = {"device": DEVICES, "size": (1, 2)}
    assert workload.workload(axes=axes, version="3")(step) is step
    (made,) = registry.values()
    assert made.name == "test_workloads.step"
    assert (made.version, made.depth, made.question) == ("3", 1, "A step for tests.")
    assert len(list(made.cases())) == 4
    case = next(made.cases())
    assert made.nbytes(case) is None
    assert made.expected(case) == {}
    assert not made.is_host_only(case) and not made.is_quick(case)
    with pytest.raises(ValueError, match=r"test_workloads\.step is registered twice"):
        workload.workload(axes=axes, version="3")(step)


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"device": DEVICES, "size": (1,)}, r"the baseline .* is none of the axes' choices"),
        ({"device": DEVICES, "bytes": (1,)}, "must equal parameters"),
        ({"size": (1,), "device": DEVICES}, "the first parameter must be `device`, as in axes="),
    ],
)
def test_axes_are_the_parameters_device_first_and_have_the_baseline(
    registry: dict[str, Workload], axes: dict[str, tuple[AxisValue, ...]], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        workload.workload(axes=axes, version="1", baseline={"size": 2})(step)
    assert not registry


@pytest.mark.parametrize(
    ("declares", "said"),
    [
        ({"values": (1, 1.5)}, "size has 1.5: a value is a text, a whole number, True or False"),
        ({"values": (1, True)}, "size has True twice"),
        ({"values": ("1",)}, r"cannot be typed \(it reads as another\)"),
        ({"version": 1}, 'version is 1, no text such as "1"'),
        ({"moves": lambda nbytes, **_: nbytes}, r"moves fails for .*: TypeError: .*'nbytes'"),
        ({"expects": lambda **_: {"synchronous": "no"}}, "expects of .*: Expected `bool`"),
    ],
)
def test_a_declaration_that_no_run_could_follow_is_refused(
    registry: dict[str, Workload], declares: dict[str, Any], said: str
) -> None:
    """Each of them ended a run, or made one that nobody could read."""
    given = {"values": (1,), "version": "1", **declares}
    axes = {"device": DEVICES, "size": given.pop("values")}
    with pytest.raises(ValueError, match=r"^test_workloads\.step: .*" + said):
        workload.workload(axes=axes, **given)(step)
    assert not registry


def test_an_unknown_family_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown family 'transfers'.*'transfer'.*allocation"):
        load(("transfers",))


def test_a_folder_says_what_it_lacks_and_a_helper_is_no_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("whole", "bare", "_shared"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "workloads.py").touch()
    (tmp_path / "whole" / "__init__.py").touch()
    (tmp_path / "_helper.py").touch()
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    assert set(families.names()) == {*WORK_FAMILIES, "whole", "bare"}
    assert families.of_project() == ("whole",)
    assert "'bare' lacks an __init__.py beside its workloads.py" in families.broken()["bare"]


# What asv sees


@pytest.mark.parametrize("family", families.names())
def test_benchmarks_equal_the_registry(family: str) -> None:
    text = (ROOT / "benchmarks" / f"{family}.py").read_text()
    assert text == source(family, load((family,))), "run scripts/sync-benchmarks"


def test_every_family_has_a_file_and_no_other() -> None:
    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert files == {"__init__", *families.names()}


def asv_classes(family: str) -> list[ast.ClassDef]:
    tree = ast.parse((ROOT / "benchmarks" / f"{family}.py").read_text())
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("family", families.names())
def test_asv_classes_hold_literals_only(family: str) -> None:
    """benchmarks/ comes from HEAD, the library from each commit: nothing may be looked up."""
    workloads = load((family,))
    classes = asv_classes(family)
    assert len(classes) == len(workloads)
    for node, work in zip(classes, workloads.values(), strict=True):
        assigned = {
            target.id: ast.literal_eval(each.value)
            for each in node.body
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        assert node.name == class_name(work.name)
        assert [ast.unparse(base) for base in node.bases] == ["suite.Suite"]
        assert assigned == {
            "workload": work.name,
            "version": work.version,
            "param_names": tuple(work.axes),
            "params": tuple(work.axes.values()),
        }
