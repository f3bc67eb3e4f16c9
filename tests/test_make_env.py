"""`scripts/make-env` says what it does, and nothing that it does not do: its functions, with a
Python and a pip that only look like them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIP = """
echo "Collecting pyarrow>=21"
echo "  Downloading pyarrow-26.0.1-cp311-cp311-manylinux_2_28_x86_64.whl (55.0 MB)"
echo "  Downloading click-8.5.1-py3-none-any.whl (126 kB)"
echo "Installing collected packages: click, pyarrow"
until grep -q "Installing" .venv/make-env.log; do sleep 0.05; done  # what was said has been read
mkdir site/click-8.5.1.dist-info
sleep 1.2
mkdir site/pyarrow-26.0.1.dist-info
exit ${PIP_ENDS:-0}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script's functions in `functions`; `.venv/bin/python` is this one."""
    for name in ("scripts", "site", "site/old-1.0.dist-info", ".venv", ".venv/bin"):
        (tmp_path / name).mkdir()
    text = (ROOT / "scripts/make-env").read_text()
    assert text.endswith("\nmain\n")
    functions = text.removesuffix("main\n") + "site_of_venv() { echo site; }\n"
    (tmp_path / "scripts/functions").write_text(functions)
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


def test_each_package_is_said_once_and_the_rest_of_pip_is_in_the_log(checkout: Path) -> None:
    done = bash(checkout, 'aloud "installing it" bash pip')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["  downloading pyarrow 26.0.1 (55.0 MB)", "  click 8.5.1", "  pyarrow 26.0.1"]
    assert "Collecting pyarrow>=21" in (checkout / ".venv/make-env.log").read_text()


def test_a_pip_that_fails_is_a_failure(checkout: Path) -> None:
    done = bash(checkout, 'aloud "installing it" bash pip', PIP_ENDS="1")
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
