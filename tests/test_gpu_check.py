"""gpu-check on a machine without a GPU: what it lacks, isolation, time, and the report."""

import json
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hostbench import facts
from hostbench.core.units import KIB, MIB
from hostbench.device.simulated import SimulatedDevice
from hostbench.facts.hardware import Hardware
from tests.gpu import check as gpu_check
from tests.gpu import report
from tests.gpu.check import check
from tests.gpu.delay import probe_all, table

ROOT = Path(__file__).parent.parent

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


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with a GPU as far as `main` asks, where two files are all there is to run."""
    monkeypatch.setattr(facts, "nvidia_hardware", lambda *_: Hardware(num_gpus=1))
    works = facts.TorchState(installed=True, importable=True, cuda_works=True)
    monkeypatch.setattr(facts, "probe_torch", lambda: works)
    monkeypatch.setattr(gpu_check, "HERE", tmp_path)
    for name in ("test_fine", "test_run"):
        (tmp_path / f"{name}.py").write_text(f"def {name}(): pass")
    return tmp_path / "out"


def test_a_python_with_nothing_installed_is_told_what_it_lacks(tmp_path: Path) -> None:
    """`-S`: no site-packages. So `check` imports nothing that may be missing."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "tests.gpu.check", "-o", str(tmp_path / "report")],
        cwd=ROOT,
        env={},
        capture_output=True,
        text=True,
    )
    said = "gpu-check: nothing can be run: pip install torch msgspec numpy pytest\n"
    assert (done.returncode, done.stderr) == (4, said)
    assert not (tmp_path / "report").exists()


def test_where_all_passes_it_exits_0_and_says_how_to_send_it(on_a_gpu: Path, capsys) -> None:
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 0
    found = json.loads((on_a_gpu / "report.json").read_text())["outcomes"]
    assert [one["outcome"] for one in found] == ["passed", "passed"]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"to send it: tar -czf out.tar.gz -C {on_a_gpu.parent} out"


def test_without_working_cuda_it_says_so_and_exits_4(
    on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    broken = facts.TorchState(installed=True, importable=True, error="the driver is too old")
    monkeypatch.setattr(facts, "probe_torch", lambda: broken)
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 4
    assert capsys.readouterr().err == "gpu-check: torch.cuda does not work: the driver is too old\n"


def test_the_report_names_neither_the_machine_nor_its_user(
    on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTBENCH_MACHINE", "betelgeuse")
    monkeypatch.setenv("HOME", "/home/zaphod")
    uuid = "GPU-8e2a1f0b-1111-2222-3333-444455556666"
    text = f"""
    import os, platform
    platform.node = lambda: "galaxy-node-7.example"
    def test_it(record_property):
        record_property("on galaxy-node-7", {{"path": "/home/zaphod/x"}})
        print("galaxy-node-7 in /home/zaphod/x, {uuid}", *os.environ.values())
        assert False, "galaxy-node-7 in /home/zaphod/x, {uuid}"
    """
    (on_a_gpu.parent / "test_fine.py").write_text(textwrap.dedent(text))
    monkeypatch.setattr(platform, "node", lambda: "galaxy-node-7.example")
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 4
    written = {path.name: path.read_text() for path in on_a_gpu.iterdir()}
    assert {"report.md", "report.json", "test_fine.log", "outcomes.jsonl"} <= set(written)
    for name, said in written.items():
        assert not [word for word in ("galaxy", "betelgeuse", "zaphod", uuid) if word in said], name
    assert "HOST in ~/x, GPU-UUID" in written["report.md"]


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


def test_the_probe_tells_waiting_from_returning_early() -> None:
    cells = list(probe_all(SimulatedDevice(), sizes=(64 * KIB, MIB)))
    assert len(cells) == 16
    early = {cell.way for cell in cells if cell.returns_early}
    assert early == {"H2D pinned non_blocking", "D2H pinned non_blocking"}
    assert table(cells).count("\n") == 3
