"""A family is added by one new file and nothing else."""

import json

import pytest

from tests import scratch
from tests.scratch import Scratch

FAMILY = '''
"""sleeping: what waiting costs."""

from hostbench import DEVICES, workload


@workload(
    axes={"device": DEVICES, "nbytes": (1024, 4096), "way": ("slow", "fast")},
    moves=lambda nbytes, **_: nbytes,
    baseline={"way": "slow"},
    quick=lambda **_: True,
    version="1",
)
def nap(device, nbytes, way):
    """One nap. Timed: the nap."""
    seconds = 0.004 if way == "slow" else 0.0004
    return lambda: device.delay(seconds)
'''
PAGES = """
import atexit, gc, json, sys
gc.disable()  # looking for garbage in pandas and streamlit takes long
atexit.register(gc.freeze)
from pathlib import Path
import hostbench
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

assert Path(hostbench.__file__).is_relative_to(Path.cwd())
sys.argv, sys.path[:0] = ["app.py"], ["dashboard"]
manifest_scanner.scan_component_manifests = list  # reads every installed package's metadata
app = AppTest.from_file("dashboard/app.py", default_timeout=60)
app.query_params["machine"] = "scratch"
app.run()
assert not app.exception, app.exception
charts = len(app.get("vega_lite_chart")) + len(app.get("arrow_vega_lite_chart"))
app.query_params["q"] = "Other"
app.switch_page("views/curves.py").run()
assert not app.exception, app.exception
workload = app.selectbox(key="workload").value
print(json.dumps([charts, workload, len(app.dataframe[0].value)]))
"""
CASES = [
    f"sleeping.nap[device={device},nbytes={size},way={way}]"
    for device in ("cuda", "cpu")
    for size in (1024, 4096)
    for way in ("slow", "fast")
]
ON_CPU = [case for case in CASES if "device=cpu" in case]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """The package, with a file more; measured on the simulated device, and recorded by the real
    asv."""
    made = scratch.make(tmp_path_factory.mktemp("family"))
    made.without_torch()
    made.commit("as it is")
    (made.root / "hostbench/families/sleeping.py").write_text(FAMILY)
    made.sync()
    assert made.git("status", "--porcelain").splitlines() == [
        "?? benchmarks/sleeping.py",
        "?? hostbench/families/sleeping.py",
    ]
    made.commit("a family more")
    made.keep_bytecode()
    done = made.hostbench("run", "sleeping", "--launches", "7", "--machine", "scratch")
    assert done.returncode == 0, done.stdout
    return made


def answered(checkout: Scratch) -> dict[str, object]:
    done = checkout.hostbench("report", "--machine", "scratch", "--format", "json")
    (answer,) = json.loads(done.stdout)["answers"]
    found: dict[str, object] = answer
    return found


def test_it_is_listed(checkout: Scratch) -> None:
    done = checkout.hostbench("list", "sleeping", "--cases", "--format", "json")
    (listed,) = json.loads(done.stdout)
    assert listed["cases"] == CASES


@pytest.mark.asv
def test_asv_has_recorded_it(checkout: Scratch) -> None:
    stored = next((checkout.results / "scratch").glob("*-hostbench-py*.json"))
    values = json.loads(stored.read_text())["results"]["sleeping.Nap.track_seconds"][0]
    assert sum(isinstance(value, float) and value == value for value in values) == len(ON_CPU)


def test_it_is_answered_with_a_factor_against_its_baseline(checkout: Scratch) -> None:
    answer = answered(checkout)
    assert (answer["family"], answer["state"]) == ("sleeping", "figure")
    figures = {one["label"]: one for one in answer["figures"]}  # type: ignore[attr-defined]
    ratio = figures["fast"]["ratio"]
    assert (ratio["to"], ratio["conclusion"]["verdict"]) == ("slow", "faster")
    assert ratio["conclusion"]["factor"] > 1
    assert figures["slow"]["ratio"] is None


def test_the_dashboard_has_its_answer_and_its_curve(checkout: Scratch) -> None:
    """By the copy's own dashboard, in a process of its own."""
    done = checkout.python("-c", PAGES, HOSTBENCH_RESULTS=str(checkout.results))
    assert done.returncode == 0, done.stdout
    charts, workload, points = json.loads(done.stdout.splitlines()[-1])
    assert charts > 1 and (workload, points) == ("sleeping.nap", 4)
