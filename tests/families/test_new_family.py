"""A family is added by one new file and nothing else."""

import json
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests import scratch
from tests.scratch import Scratch

FAMILY = '''
"""sleeping: what waiting costs."""

import time

from hostbench import DEVICES, Prepared, workload


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

    def step():
        time.sleep(seconds)
        device.delay(seconds)

    return Prepared(step=step)
'''
CASES = [
    f"sleeping.nap[device={device},nbytes={size},way={way}]"
    for device in ("cuda", "cpu")
    for size in (1024, 4096)
    for way in ("slow", "fast")
]
ON_CPU = [case for case in CASES if "device=cpu" in case]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """The package, with a file more; measured, and recorded by the real asv."""
    made = scratch.make(tmp_path_factory.mktemp("family"))
    made.no_probe()
    made.commit("as it is")
    (made.root / "hostbench/families/sleeping.py").write_text(FAMILY)
    made.sync()
    assert made.git("status", "--porcelain").splitlines() == [
        "?? benchmarks/sleeping.py",
        "?? hostbench/families/sleeping.py",
    ]
    made.commit("a family more")
    done = made.hostbench("run", "sleeping", "--launches", "7", "--machine", "scratch")
    assert done.returncode == 0, done.stdout
    return made


def answered(checkout: Scratch) -> dict[str, object]:
    done = checkout.hostbench("report", "--machine", "scratch", "--format", "json")
    (answer,) = json.loads(done.stdout)["answers"]
    found: dict[str, object] = answer
    return found


def test_it_is_listed_and_simulated(checkout: Scratch) -> None:
    done = checkout.hostbench("list", "sleeping", "--cases", "--format", "json")
    (listed,) = json.loads(done.stdout)
    assert listed["cases"] == CASES
    done = checkout.hostbench("run", "sleeping", "--quick", "--device", "simulated", "--no-asv")
    assert done.returncode == 0, done.stdout


@pytest.mark.asv
def test_asv_has_recorded_it(checkout: Scratch) -> None:
    shown = checkout.asv("show", "HEAD", "--machine", "scratch").stdout
    assert "sleeping.Nap.track_seconds" in shown
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


def test_it_has_its_card_and_its_page_with_a_chart(
    checkout: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages run in this process: the copy's family is brought in as a project's own."""
    own = checkout.root / "bench"
    own.mkdir(exist_ok=True)
    (own / "sleeping.py").write_text(FAMILY)
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(own))
    monkeypatch.setenv("HOSTBENCH_RESULTS", str(checkout.results))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    folder = Path(__file__).parent.parent.parent / "dashboard"
    monkeypatch.syspath_prepend(str(folder))
    app = AppTest.from_file(str(folder / "app.py"), default_timeout=30)
    app.query_params["machine"] = "scratch"
    app.run()
    assert not app.exception
    assert "sleeping" in [one.value for one in app.subheader]
    app.query_params["family"] = "sleeping"
    app.switch_page("views/family.py").run()
    assert not app.exception
    assert app.get("vega_lite_chart") or app.get("arrow_vega_lite_chart")
