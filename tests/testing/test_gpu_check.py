"""gpu-check on a machine without a GPU: isolation, time, the report, and the delay probe."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostbench.core.units import KIB, MIB
from hostbench.device.simulated import SimulatedDevice
from tests.gpu import report
from tests.gpu.check import HERE, check
from tests.gpu.delay import probe_all, table

ROOT = Path(__file__).parent.parent.parent

MIXED = """
import pytest

@pytest.fixture
def record(request):
    return lambda text, **data: request.node.user_properties.append((text, data))

def test_fine(record):
    record("55 GB/s", rate=55.0)

def test_broken():
    assert 1 == 2

def test_refused():
    pytest.skip("not on this machine")
"""


def checked(folder: Path, **files: str) -> tuple[int, list[report.Outcome]]:
    """Exit code and outcomes of a check of these test files."""
    places = [folder / f"{name}.py" for name in files]
    for place, text in zip(places, files.values(), strict=True):
        place.write_text(text)
    code = check(places, folder, {"gpu0": {"name": "X"}}, total_s=60)
    return code, json.loads((folder / "report.json").read_text())["outcomes"]


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` sets it for its children."""
    monkeypatch.setenv(report.FOLDER, "")


def test_without_a_gpu_it_says_so_in_one_line_and_exits_3(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.check", "-o", str(tmp_path / "report")],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (3, "", 1)
    assert "no NVIDIA GPU here" in done.stdout
    assert not (tmp_path / "report").exists()


def test_outcomes_and_figures_are_reported_and_a_failure_stops_no_other_file(
    tmp_path: Path,
) -> None:
    code, found = checked(
        tmp_path,
        test_mixed=MIXED,
        test_dies="import os\ndef test_it(): os._exit(7)",
        test_last="def test_it(): pass",
    )
    assert code == 4
    outcomes = [(one["test"].partition("::")[2], one["outcome"]) for one in found]
    assert outcomes == [
        ("test_fine", "passed"),
        ("test_broken", "failed"),
        ("test_refused", "skipped"),
        ("", "failed"),
        ("test_it", "passed"),
    ]
    assert found[0]["figures"] == [{"text": "55 GB/s", "data": {"rate": 55.0}}]
    assert found[2]["reason"] == "not on this machine"
    assert (found[3]["test"], "code 7" in found[3]["reason"]) == ("test_dies.py", True)
    text = (tmp_path / "report.md").read_text()
    assert all(part in text for part in ("55 GB/s", "assert 1 == 2", "| gpu0.name | X |"))


def test_a_file_that_hangs_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "test_hangs.py"
    path.write_text("import time\ndef test_it(): time.sleep(1000)")
    assert check([path], tmp_path, {}, others_s=1.0) == 4
    (outcome,) = json.loads((tmp_path / "report.json").read_text())["outcomes"]
    assert (outcome["outcome"], outcome["reason"][:15]) == ("failed", "ended after 1 s")


def test_after_the_time_files_are_not_reached(tmp_path: Path) -> None:
    assert check([tmp_path / "test_none.py"], tmp_path, {}, total_s=0.0) == 3
    (outcome,) = json.loads((tmp_path / "report.json").read_text())["outcomes"]
    assert (outcome["outcome"], "not reached" in outcome["reason"]) == ("skipped", True)


def test_what_this_machine_cannot_do_is_a_skip(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    text = "from hostbench.core.errors import Unavailable\ndef test_it(): raise Unavailable('no')"
    code, (outcome,) = checked(tmp_path, test_unavailable=text)
    assert (code, outcome["outcome"], outcome["reason"]) == (3, "skipped", "no")


def test_the_probe_tells_waiting_from_returning_early() -> None:
    cells = list(probe_all(SimulatedDevice(), sizes=(64 * KIB, MIB)))
    assert len(cells) == 16
    early = {cell.way for cell in cells if cell.returns_early}
    assert early == {"H2D pinned non_blocking", "D2H pinned non_blocking"}
    assert table(cells).count("\n") == 3
