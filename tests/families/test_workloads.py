"""The registry, and what asv sees of it: names, versions and axes are history."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostbench import asv_measure, families
from hostbench.core.case import AxisValue
from hostbench.core.errors import DeviceLost, UsageError
from hostbench.core.records import CaseRecord
from hostbench.device.base import Device, Step
from hostbench.facts.gpu import Hardware
from hostbench.families import load
from hostbench.measure.workload import DEVICES, Workload, check_family, workload
from hostbench.runner import session
from tests import golden
from tests.fakes.builders import record

WORKLOADS = load()
WORK_FAMILIES = families.known()
every_workload = pytest.mark.parametrize("work", WORKLOADS.values(), ids=WORKLOADS)


def test_history_goes_on() -> None:
    """A series is its name, version and axes. What is added to the list is promised from then on;
    where an old one changes, which tears a line in every dashboard, its version is bumped."""
    golden.check("series", series())


def series() -> Iterator[str]:
    for _, work in sorted(WORKLOADS.items()):
        yield f"{work.name} version {work.version}"
        for name, values in work.axes.items():
            yield f"    {name}: {', '.join(map(repr, values))}"


@pytest.mark.parametrize("family", families.known())
def test_a_file_of_benchmarks_stands_on_frozen_names_alone(family: str) -> None:
    """asv imports it from HEAD with the hostbench of each commit: what it needs when it is imported
    must have been there ever since."""
    tree = ast.parse((families.our_benchmarks() / f"{family}.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        names = {alias.name for alias in node.names}
        module = node.module if isinstance(node, ast.ImportFrom) else names.pop()
        assert module == "hostbench" or str(module).partition(".")[0] in sys.stdlib_module_names
        if module == "hostbench":
            assert names <= FROZEN
    (setup,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "setup_cache")
    assert ast.unparse(setup.body[-1]) == f"return suite.measure('{family}')"


def test_each_file_that_asv_reads_is_a_family() -> None:
    """What a family leaves behind that is taken out would be empty benchmarks, without a word."""
    files = {path.stem for path in families.our_benchmarks().glob("[!_]*.py")}
    assert files == set(WORK_FAMILIES)


FROZEN = set("DEVICES GIB KIB MIB Device Prepared rank_group suite workload".split())
"""Nothing leaves this list."""


@every_workload
def test_a_workload_is_whole(work: Workload) -> None:
    assert tuple(inspect.signature(work.build).parameters) == tuple(work.axes)
    assert next(iter(work.axes)) == "device" and work.axes["device"] == DEVICES
    assert work.question.endswith("."), "it says what is timed"
    cases = list(work.cases())
    assert len(cases) == len(set(cases)) == len(set(map(str, cases)))
    assert all(list(case.values) == list(work.axes) for case in cases)
    for case in cases:
        work.options(case)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", families.known())
def test_a_quick_run_has_a_few_cases(family: str, device: str) -> None:
    """In two minutes for all families: so many whole times for samples, or more that take less."""
    shares = [
        work.sampling
        for work in load((family,)).values()
        for case in work.cases()
        if work.options(case).quick and case.values["device"] == device
    ]
    assert 3 <= len(shares) and sum(shares) <= {"transfer": 20, "collectives": 16}.get(family, 10)


def step(device: Device, size: int) -> Step:
    """A step for tests."""
    return lambda: None


AXES: dict[str, tuple[AxisValue, ...]] = {"device": DEVICES, "size": (1, 2)}


def refused(axes: dict[str, tuple[AxisValue, ...]], **options: Any) -> str:
    """Why hostbench does not load such a declaration; asv gets its class all the same."""
    suite = workload(**{"axes": axes, "version": "1", **options})(step)
    assert suite.__name__ == "Step" and suite.__module__ == __name__
    with pytest.raises(ValueError, match=r"^test_workloads\.step: ") as error:
        check_family([suite], thorough=True)
    return str(error.value)


def test_a_family_has_ranks_or_none() -> None:
    """Ranks are forked, and must be before their parent runs the first torch operation."""
    with_ranks = workload(axes=AXES, version="1", ranks=lambda **_: 2)(step)
    with pytest.raises(ValueError, match="declare `ranks`"):
        check_family([with_ranks, workload(axes=AXES, version="1")(step)], thorough=True)


def test_a_file_that_lacks_its_setup_cache_or_has_anothers_says_so() -> None:
    """asv alone calls it: it passes a parameter in place of the cache that is not there."""
    suite = workload(axes=AXES, version="3")(step)
    with pytest.raises(RuntimeError, match=r"add `def setup_cache\(\): .*\('test_workloads'\)`"):
        suite().setup("cuda", 1)
    with pytest.raises(UsageError, match=r"suite.measure\('yours'\): give it 'mine'"):
        asv_measure.measure("yours", Path("mine.py"))


def test_cases_that_were_not_reached_are_failures_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a device does not start; asv would take a case without an entry for one that this
    commit lacks: a skip."""
    why = "device cuda: No CUDA GPUs are available; check nvidia-smi"

    def records(plan: Any, *_: Any, **__: Any) -> Iterator[tuple[int, CaseRecord]]:
        yield 0, record(plan.cases[0])
        raise DeviceLost(why)

    monkeypatch.setenv("ASV_CONF_DIR", str(tmp_path))
    (tmp_path / "asv.conf.json").write_text('{"results_dir": "results"}')
    monkeypatch.setattr(session, "records", records)
    monkeypatch.setattr(asv_measure, "nvidia_hardware", lambda: Hardware(num_gpus=0, why="none"))
    monkeypatch.setattr(asv_measure, "die_with_parent", lambda: None)
    monkeypatch.setattr(asv_measure, "become_subreaper", lambda: None)
    entries = asv_measure.measure("allocation", tmp_path / "allocation.py")["records"]
    states = [entry["status"] for entry in entries.values()]
    assert states.count("ok") == 1 and states.count("failed") == len(states) - 1 > 1
    assert {entry["reason"] for entry in entries.values()} == {None, why}


@pytest.mark.parametrize(
    ("declares", "reason"),
    [
        ({"baseline": {"size": 2}}, r"the baseline .* is none of the axes' choices"),
        ({"axes": {"device": DEVICES, "bytes": (1,)}}, "must equal parameters"),
        ({"axes": {"size": (1,), "device": DEVICES}}, "must equal parameters"),
        ({"values": (1, 1.5)}, "size=1.5. cannot be typed: a value is True, False"),
        ({"values": (1, True)}, r"size has \(1, True\): a case needs a value, and each once"),
        ({"values": ("1",)}, "size=1. cannot be typed"),
        ({"version": 1}, 'version is 1, not text such as "1"'),
        ({"moves": lambda nbytes, **_: nbytes}, r"moves fails: TypeError: .*'nbytes'"),
        ({"expects": lambda **_: {"synchronous": "no"}}, r"Expected `bool`, .* at `\$.expects"),
        ({"needs": lambda **_: ["GPU"]}, r"Invalid enum value 'GPU' - at `\$.needs"),
        ({"base_line": {}}, r"no option 'base_line' \(did you mean 'baseline'\?\)"),
    ],
)
def test_a_declaration_that_no_run_could_follow_is_refused(
    declares: dict[str, Any], reason: str
) -> None:
    """Each of them ended a run, or made one that nobody could read."""
    axes = {"device": DEVICES, "size": declares.get("values", (1,))}
    others = {name: value for name, value in declares.items() if name != "values"}
    assert re.search(reason, refused(**{"axes": axes, **others}))


def test_a_file_without_workloads_is_no_family_and_asvs_own_kind_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "whole": f"{DECLARED}\n\ndef mine(device): ...\n",
        "_helper": f"{DECLARED}\n\ndef helps(device): ...\n",
        "empty": "import hostbench",
        "plain": "raise SystemExit('nobody may import this')",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    assert set(families.known()) == {*WORK_FAMILIES, "whole"}
    assert families.user_families() == ("whole",) and not families.known()["whole"].is_ours
    assert [*load(("whole",))] == ["whole.mine"] and not families.broken()


DECLARED = """from hostbench import DEVICES, workload
@workload(axes={"device": DEVICES}, version="1")"""
