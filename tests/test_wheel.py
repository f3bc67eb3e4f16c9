"""The wheel, in an environment of its own, outside any checkout: a newcomer's commands."""

import shutil
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from hostbench.vcs.build import environment
from tests import own_project, scratch
from tests.own_project import FIRST
from tests.scratch import Scratch

pytestmark = pytest.mark.soak  # to build and to install it takes a minute
PORT = 8593
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment with the wheel: it sees the packages of this one, but no checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", ".")
    checkout = scratch.make(folder)
    shutil.copytree(ROOT / "docs", checkout.root / "docs")
    built = checkout.python(*build, "-w", str(folder / "wheels"))
    assert built.returncode == 0, built.stdout
    environment(folder / "env")
    (wheel,) = (folder / "wheels").glob("hostbench-*.whl")
    pip = folder / "env" / "bin" / "pip"
    subprocess.run([pip, "install", "-q", "--no-deps", str(wheel)], check=True)
    return pip.parent


@pytest.fixture(scope="module")
def project(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    made = own_project.empty(tmp_path_factory.mktemp("newcomer"))
    path = f"{programs}:{made.env()['PATH']}"
    made.environ.update(HOSTBENCH_MACHINE="mine", PATH=path)
    return made


def said(project: Scratch, line: str) -> str:
    code, text = own_project.shell(project, line)
    assert code == 0, f"{line}\n{text}"
    return text


def test_a_newcomer_gets_to_a_comparison(project: Scratch) -> None:
    inside = said(project, "python -P -c 'import hostbench; print(hostbench.__file__)'")
    assert "/env/lib/" in inside
    assert "torchrun" in said(project, "python -P -m hostbench.ranks --help")
    found = ""
    for language, text in own_project.blocks(FIRST):
        if language == "python":
            own_project.write(project.root, text)
            continue
        for line in text.splitlines():
            found = said(project, line)
    assert found.count("\nfaster ") == 2, found
    assert "kept " in said(project, "hostbench run steps --quick --launches 1")
    assert "What does the DataLoader cost?" in said(project, "hostbench report")
    said(project, "hostbench init")
    workflow = project.root / ".github" / "workflows" / "hostbench-nightly.yml"
    assert "hostbench nightly" in workflow.read_text()


def test_a_newcomer_has_a_dashboard(project: Scratch, programs: Path) -> None:
    (project.root / "results").mkdir(exist_ok=True)
    shown = subprocess.Popen(
        [programs / "hostbench", "dashboard", "--headless", "--port", str(PORT)],
        cwd=project.root,
        env=project.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert answers(f"http://localhost:{PORT}/_stcore/health")
    finally:
        shown.terminate()
        shown.wait(30)


def answers(url: str) -> bool:
    """Within a minute."""
    for _ in range(120):
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
        time.sleep(0.5)
    return False
