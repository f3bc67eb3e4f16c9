"""gpu-check on a machine without a GPU: what it lacks, isolation, time, and the report."""

import inspect
import json
import os
import platform
import subprocess
import sys
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hostbench import facts
from hostbench.core.units import GIB, KIB, MIB
from hostbench.device.simulated import SimulatedDevice
from hostbench.facts.hardware import Hardware
from hostbench.facts.record import known
from tests.gpu import check as gpu_check
from tests.gpu import conftest as gpu_conftest
from tests.gpu import needs, report, test_copies, test_run
from tests.gpu.budget import BEFORE_S, DEADLINE_S, QUICK_S, RUN_S
from tests.gpu.check import HERE, check
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


def outcomes(folder: Path) -> dict[str, tuple[str, str]]:
    """Test, or file that was not run -> how it came out, and why."""
    found = json.loads((folder / "report.json").read_text())["outcomes"]
    return {
        one["test"].rpartition("::")[2].removesuffix(".py"): (one["outcome"], one["reason"])
        for one in found
    }


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """A Python that lacks these."""
    monkeypatch.setattr(
        needs, "find_spec", lambda name: None if name in modules else find_spec(name)
    )


def test_here_nothing_is_lacking_and_all_is_run(on_a_gpu: Path, capsys) -> None:
    assert needs.lacking() == []
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 0
    assert outcomes(on_a_gpu) == {"test_fine": ("passed", ""), "test_run": ("passed", "")}
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines()[-1] == f"to send it: tar -czf out.tar.gz -C {on_a_gpu.parent} out"


def test_without_a_package_of_hostbench_run_the_rest_is_run(
    on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    without(monkeypatch, "click")
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    least = needs.bounds()["click"]
    assert line == (
        "gpu-check: click is not installed: test_run and test_nccl are not run; "
        f"pip install 'click>={least}'"
    )
    found = outcomes(on_a_gpu)
    assert found["test_fine"] == ("passed", "")
    assert found["test_run"] == ("skipped", line.removeprefix("gpu-check: "))


def test_without_nvml_and_git_all_is_run_and_said_to_say_less(
    on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    without(monkeypatch, "pynvml")
    monkeypatch.setenv("PATH", str(on_a_gpu.parent))
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 0
    nvml, git = capsys.readouterr().err.splitlines()
    assert "nvidia-ml-py is not installed: facts of the GPU and the counters" in nvml
    assert "pip install 'nvidia-ml-py>=" in nvml
    assert "git is not installed: the report cannot say which commit it is of" in git
    assert {outcome for outcome, _ in outcomes(on_a_gpu).values()} == {"passed"}


@pytest.mark.parametrize("module", needs.EVERY_FILE)
def test_what_nothing_runs_without_is_said_before_anything_is_started(
    module: str, on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    without(monkeypatch, module)
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{module} is not installed: nothing can be run; pip install '{module}>=" in line
    assert not on_a_gpu.exists()


@pytest.mark.parametrize(
    ("name", "there", "said"),
    [
        ("pytest", "7.3.2", "pytest 7.3.2 is older than 7.4: nothing can be run; pip install"),
        ("pytest", "7.4.0", None),
        ("pytest", "8.1.1", None),
        ("pandas", "2.2.3", "pandas 2.2.3 is older than 3: it is tried all the same; pip install"),
        ("torch", "2.5.1+cu124", "torch 2.5.1+cu124 is older than 2.6: it is tried all the same"),
        ("torch", "2.6.0a0+df5bbc09d1.nv24.11", None),
        ("torch", None, None),
    ],
)
def test_versions(
    name: str, there: str | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = needs.version
    monkeypatch.setattr(needs, "version", lambda each: there if each == name else version(each))
    lines = [str(lack) for lack in needs.lacking()]
    assert (lines == []) if said is None else (len(lines) == 1 and said in lines[0])


def test_a_python_with_nothing_installed_is_told_all_it_lacks(tmp_path: Path) -> None:
    """`-S`: no site-packages. So neither `check` nor `needs` imports what may be missing."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "tests.gpu.check", "-o", str(tmp_path / "report")],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (4, len(needs.bounds()) + 1), done.stderr
    assert [line.split()[1] for line in lines[: len(needs.EVERY_FILE)]] == [*needs.EVERY_FILE]
    assert all("pip install" in line for line in lines[:-1])
    assert lines[-1].startswith("gpu-check: git is not installed")


def test_what_only_runs_need_no_other_file_imports() -> None:
    """Or the lack of click would stop more than is said."""
    only = set(needs.bounds()) - {*needs.EVERY_FILE, "nvidia-ml-py"}
    assert only >= {"click", "pandas", "pyarrow"}
    files = [path.stem for path in HERE.glob("test_*.py") if path.stem not in needs.RUNS]
    code = "import gc, sys; sys.modules.update(dict.fromkeys(sys.argv[1].split(',')))\n"
    code += "gc.disable()  # looking for garbage in torch takes long\n"
    code += "\n".join(f"import tests.gpu.{name}" for name in files) + "\ngc.freeze()"
    subprocess.run([sys.executable, "-c", code, ",".join(only)], cwd=ROOT, check=True)


def test_where_nvml_could_not_be_asked_no_gpu_is_not_the_whole_answer(
    on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """WSL2 shows its GPUs to NVML alone."""
    none = Hardware(num_gpus=0, why="no NVIDIA driver")
    monkeypatch.setattr(facts, "nvidia_hardware", lambda *_: none)
    without(monkeypatch, "pynvml", "click")
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert "no NVIDIA GPU here: no NVIDIA driver; NVML was not asked: pip install" in line


def test_without_working_cuda_it_says_so_and_exits_4(
    on_a_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    broken = facts.TorchState(installed=True, importable=True, error="the driver is too old")
    monkeypatch.setattr(facts, "probe_torch", lambda: broken)
    assert gpu_check.main(["-o", str(on_a_gpu)]) == 4
    assert capsys.readouterr().err == "gpu-check: torch.cuda does not work: the driver is too old\n"


def test_a_folder_that_cannot_be_written_is_a_usage_error(on_a_gpu: Path, capsys) -> None:
    on_a_gpu.write_text("a file")
    assert gpu_check.main(["-o", str(on_a_gpu / "deep")]) == 2
    assert "choose another -o" in capsys.readouterr().err


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


def test_a_second_check_keeps_no_run_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "every_case_is_measured"
    (folder / "machine/runs").mkdir(parents=True)
    assert not test_run.emptied(folder).exists()
    assert test_run.emptied(folder) == folder


@pytest.mark.parametrize(
    ("elapsed_s", "lasts_s"),
    [(0.0, RUN_S), (BEFORE_S + QUICK_S, RUN_S), (BEFORE_S + QUICK_S + 90.0, RUN_S - 90.0)],
)
def test_the_run_of_every_case_ends_within_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elapsed_s: float, lasts_s: float
) -> None:
    """By itself, also where the quick cases before it took longer than they should."""
    monkeypatch.setattr(test_run, "BEGAN_S", time.monotonic() - elapsed_s)
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(test_run, "measured", lambda folder, *args: asked.append(args))
    monkeypatch.setattr(test_run, "told", lambda run: "")
    test_run.test_every_case_is_measured(None, lambda text: None, tmp_path)
    (words,) = asked
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given == {
        "--launches": "1",
        "--budget": f"{lasts_s:g}",
        "--deadline": f"{DEADLINE_S:g}",
    }


class Counting:
    """As far as the link's counters are asked: each look finds so many bytes more."""

    def __init__(self, step: int) -> None:
        self.seen, self.step = 0, step

    def bytes_counted(self) -> tuple[int, int]:
        self.seen += self.step
        return self.seen, self.seen

    def __getattr__(self, name: str) -> object:
        return lambda *args, **options: None


def test_counters_that_stand_still_are_an_answer_and_no_failure() -> None:
    noted: list[str] = []
    look_at: Any = test_copies.test_the_link_counts_the_bytes_of_a_copy

    def look(step: int) -> None:
        look_at(Counting(step), noted.append, "H2D")

    look(GIB)
    with pytest.raises(pytest.skip.Exception, match="they do not see this link"):
        look(0)
    with pytest.raises(AssertionError):
        look(MIB)
    assert len(noted) == 3


def test_a_c2c_link_is_not_held_against_pcie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies at 400 GB/s, faster than any PCIe link."""
    gpu = {"pcie_max_generation": known(5), "pcie_max_width": known(16)}
    monkeypatch.setattr(test_copies, "seconds_of_copies", lambda *_: [test_copies.NBYTES / 4e11])
    monkeypatch.setattr(test_copies, "collect", lambda: {"gpu0": gpu})
    with pytest.raises(AssertionError):
        test_copies.test_no_pinned_copy_is_faster_than_its_link(Counting(0), print_nothing, "H2D")  # type: ignore[arg-type]
    gpu["c2c_enabled"] = known(True)
    with pytest.raises(pytest.skip.Exception, match="NVLink-C2C"):
        test_copies.test_no_pinned_copy_is_faster_than_its_link(Counting(0), print_nothing, "H2D")  # type: ignore[arg-type]


def print_nothing(text: str, **data: object) -> None:
    """Stands in for `record`."""


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
    """By the hook of tests/gpu/conftest.py, without torch, which the rest of it imports."""
    (tmp_path / "conftest.py").write_text(
        "from collections.abc import Generator\nimport pytest\n"
        "from hostbench.core.errors import Unavailable\n"
        + inspect.getsource(gpu_conftest.pytest_runtest_call)
    )
    text = "from hostbench.core.errors import Unavailable\ndef test_it(): raise Unavailable('no')"
    code, (outcome,) = checked(tmp_path, test_unavailable=text)
    assert (code, outcome["outcome"], outcome["reason"]) == (3, "skipped", "no")


def test_the_probe_tells_waiting_from_returning_early() -> None:
    cells = list(probe_all(SimulatedDevice(), sizes=(64 * KIB, MIB)))
    assert len(cells) == 16
    early = {cell.way for cell in cells if cell.returns_early}
    assert early == {"H2D pinned non_blocking", "D2H pinned non_blocking"}
    assert table(cells).count("\n") == 3
