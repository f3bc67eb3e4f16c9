"""`scripts/make-env` says what it does, and nothing that it does not do: its functions, with a
Python and a pip that only look like them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIP = """
echo "Collecting pyarrow>=21"
exit ${PIP_ENDS:-0}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script's functions in `functions`; `.venv/bin/python` is this one."""
    for name in ("scripts", ".venv", ".venv/bin"):
        (tmp_path / name).mkdir()
    text = (ROOT / "scripts/make-env").read_text()
    assert text.endswith("\nmain\n")
    (tmp_path / "scripts/functions").write_text(text.removesuffix("main\n"))
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "pip").write_text(PIP)
    return tmp_path


def bash(checkout: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"source scripts/functions\n{code}"],
        cwd=checkout,
        env={"PATH": "/usr/bin:/bin", **environ},
        text=True,
        capture_output=True,
        timeout=60,
    )


def test_a_step_is_one_line_and_what_pip_says_is_in_the_log(checkout: Path) -> None:
    done = bash(checkout, 'say "installing it"; quietly "installing it" bash pip')
    assert (done.returncode, done.stdout) == (0, "make-env: installing it\n"), done.stderr
    assert "Collecting pyarrow>=21" in (checkout / ".venv/make-env.log").read_text()


def test_a_pip_that_fails_is_a_failure(checkout: Path) -> None:
    done = bash(checkout, 'quietly "installing it" bash pip', PIP_ENDS="1")
    assert done.returncode == 4 and "installing it failed" in done.stderr


@pytest.mark.parametrize(("there", "said"), [("2.13.0+cpu", False), ("2.9.0", True), ("", True)])
def test_torch_is_said_to_be_installed_only_where_it_is(
    checkout: Path, there: str, said: bool
) -> None:
    stand_ins = f'torch_version() {{ echo {there}; }}; pip_install() {{ echo "pip $*"; }}\n'
    done = bash(checkout, stand_ins + "install_torch")
    assert done.returncode == 0, done.stderr
    assert ("make-env: installing torch 2.13.0" in done.stdout) is said
    log = checkout / ".venv/make-env.log"
    assert log.exists() is said and (not said or log.read_text() == "pip torch\n")


@pytest.mark.parametrize(
    ("release", "ends", "argument"),
    [("580.65", 0, "torch"), ("570.86", 0, "whl/cu126 torch"), ("470.2", 2, ""), ("", 0, "torch")],
)
def test_a_build_of_torch_is_chosen_that_the_driver_can_run(
    checkout: Path, release: str, ends: int, argument: str
) -> None:
    nvidia_smi = f"nvidia-smi() {{ echo {release}.01; }}" if release else ""
    stand_ins = f'{nvidia_smi}\ntorch_version() {{ echo; }}; pip_install() {{ echo "pip $*"; }}\n'
    done = bash(checkout, stand_ins + "install_torch")
    assert done.returncode == ends, done.stderr
    assert ("too old for torch 2.13.0: update it to 580" in done.stderr) is (ends == 2)
    if argument:
        assert (checkout / ".venv/make-env.log").read_text().endswith(f"{argument}\n")
