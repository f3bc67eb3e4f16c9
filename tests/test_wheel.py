"""The wheel, in an environment of its own, outside any checkout: a newcomer's commands."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests import own_project, scratch
from tests.own_project import FIRST
from tests.scratch import Scratch

pytestmark = pytest.mark.soak  # to build and to install it takes a minute
ROOT = Path(__file__).parent.parent


@pytest.fixture
def project(tmp_path: Path) -> Scratch:
    """Of somebody with the wheel: its environment sees the packages of this one, no checkout."""
    checkout, project = scratch.make(tmp_path / "ours"), own_project.empty(tmp_path)
    shutil.copytree(ROOT / "docs", checkout.root / "docs")
    build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", ".")
    built = checkout.python(*build, "-w", str(tmp_path))
    assert built.returncode == 0, built.stdout
    venv.create(tmp_path / "env", symlinks=True)
    (site,), programs = (tmp_path / "env" / "lib").glob("*/site-packages"), tmp_path / "env" / "bin"
    (site / "parent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (wheel,) = tmp_path.glob("hostbench-*.whl")
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    subprocess.run([*pip, "install", "-q", "--no-deps", "--ignore-installed", wheel], check=True)
    path = f"{programs}:{project.env()['PATH']}"
    project.environ.update(HOSTBENCH_MACHINE="mine", PATH=path)
    return project


def said(project: Scratch, line: str) -> str:
    code, text = own_project.shell(project, line)
    assert code == 0, f"{line}\n{text}"
    return text


def test_a_newcomer_gets_to_a_comparison(project: Scratch) -> None:
    inside = said(project, "python -P -c 'import hostbench; print(hostbench.__file__)'")
    assert "/env/lib/" in inside
    assert "torchrun" in said(project, "python -P -m hostbench.ranks --help")
    page = said(project, "python -P -c 'import hostbench._dashboard as d; print(*d.__path__)'")
    assert {"app.py", ".streamlit"} <= {path.name for path in Path(page.strip()).iterdir()}
    *_, found = (said(project, line) for line in own_project.typed(FIRST, project.root))
    assert found.count("\nfaster ") == 2, found
    assert "stored " in said(project, "hostbench run steps --quick --launches 1")
    assert "What does the DataLoader cost with 32 examples?" in said(project, "hostbench report")
    said(project, "hostbench init")
    workflow = project.root / ".github" / "workflows" / "hostbench-nightly.yml"
    assert "hostbench nightly" in workflow.read_text()
