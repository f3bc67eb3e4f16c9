"""gpu-check on a machine without a GPU: what it lacks, isolation, time, and the report."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from hostbench import facts
from hostbench.facts.gpu import Hardware
from tests.gpu import check as gpu_check

ROOT = Path(__file__).parent.parent
UUID = "GPU-8e2a1f0b-1111-2222-3333-444455556666"
MIXED = f"""
import os, platform, pytest

def test_fine():
    print("55 GB/s on galaxy-node-7, {UUID}", *os.environ.values())

def test_broken():
    assert 1 == 2, "in /home/zaphod/x"

def test_refused():
    pytest.skip("not on this machine")
"""


def test_without_a_gpu_it_says_so_in_one_line_and_exits_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_check.main(["-o", str(tmp_path / "report")]) == 3
    said = capsys.readouterr()
    assert (said.out.count("\n"), said.err) == (1, "") and "no NVIDIA GPU here" in said.out
    assert not (tmp_path / "report").exists()


def test_a_python_with_nothing_installed_is_told_what_it_lacks(tmp_path: Path) -> None:
    """`-S`: no site-packages. So `check` imports nothing that may be missing."""
    argv = [sys.executable, "-S", "-m", "tests.gpu.check", "-o", str(tmp_path / "report")]
    done = subprocess.run(argv, cwd=ROOT, env={}, capture_output=True, text=True)
    said = "gpu-check: nothing can be run: pip install torch msgspec numpy pytest\n"
    assert (done.returncode, done.stderr) == (4, said)


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with a GPU as far as `main` asks, where these files are all there is to run."""
    monkeypatch.setattr(facts, "nvidia_hardware", lambda *_: Hardware(num_gpus=1))
    works = facts.TorchState(installed=True, importable=True, cuda_works=True)
    monkeypatch.setattr(facts, "probe_torch", lambda: works)
    monkeypatch.setattr(gpu_check, "HERE", tmp_path)
    monkeypatch.setattr(platform, "node", lambda: "galaxy-node-7.example")
    monkeypatch.setenv("HOSTBENCH_MACHINE", "betelgeuse")
    monkeypatch.setenv("HOME", "/home/zaphod")
    for name, text in {
        "test_mixed": MIXED,
        "test_dies": "import os\ndef test_it(): os._exit(7)",
        "test_hangs": "import time\ndef test_it(): time.sleep(1000)",
        "test_last": "def test_it(): pass",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(("files", "code"), [("mixed dies hangs last", 4), ("last", 0)])
def test_a_failure_stops_no_other_file_and_the_report_names_nobody(
    files: str, code: int, on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = {f"test_{name}": 1.0 if name == "hangs" else 60.0 for name in files.split()}
    monkeypatch.setattr(gpu_check, "BUDGETS", budgets)
    assert gpu_check.main(["-o", str(on_a_gpu / "out")]) == code
    text = (on_a_gpu / "out" / "report.md").read_text()
    assert "\n## test_last: passed\n" in text and "| gpu0" not in text
    if code:
        assert "\n## test_mixed: FAILED\n" in text and "\n## test_dies: ended with 7\n" in text
        assert "\n## test_hangs: ended after 1 s" in text
        assert "55 GB/s on HOST, GPU-UUID" in text and "in ~/x" in text
        assert "not on this machine" in text
    assert not [word for word in ("galaxy", "betelgeuse", "zaphod", UUID) if word in text]


def test_without_working_cuda_it_says_so_and_exits_4(
    on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = facts.TorchState(installed=True, importable=True, error="the driver is too old")
    monkeypatch.setattr(facts, "probe_torch", lambda: broken)
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 4
    assert capsys.readouterr().err == "gpu-check: torch.cuda does not work: the driver is too old\n"


def test_every_file_has_its_time_in_under_ten_minutes() -> None:
    assert {path.stem for path in gpu_check.HERE.glob("test_*.py")} == {*gpu_check.BUDGETS}
    assert sum(gpu_check.BUDGETS.values()) <= 570  # and what `check` itself starts
