"""A project of one's own, made of what docs/your-own.md prints and of nothing else."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostbench.core.user_project import WORKLOADS
from hostbench.families import load
from hostbench.measure import workload
from tests.scratch import TREE, Scratch, put

FIRST, HISTORY = "The first comparison", "A history by commit, and asv"


def section(name: str) -> str:
    page = (TREE / "docs" / "your-own.md").read_text()
    return re.split(rf"^## {name}$", page, flags=re.M)[1].partition("\n## ")[0]


def blocks(name: str) -> Iterator[tuple[str, str]]:
    """(language, text) of the blocks of that section, in their order."""
    yield from re.findall(r"```(\w+)\n(.*?)```", section(name), re.S)


def commands(name: str) -> list[str]:
    """What it says to type there."""
    return [line for kind, text in blocks(name) if kind == "sh" for line in text.splitlines()]


def typed(name: str, root: Path) -> Iterator[str]:
    """Its commands in turn; the files between them are written as they come."""
    for language, text in blocks(name):
        if language == "python":
            write(root, text)
        else:
            yield from text.splitlines()


def write_files(name: str, root: Path) -> None:
    """The files that it prints, each with its name in its first line."""
    for language, text in blocks(name):
        if language == "python":
            write(root, text)


def write(root: Path, text: str) -> None:
    put(root / text.partition("\n")[0].removeprefix("# "), text)


def empty(folder: Path) -> Scratch:
    """A folder with nothing in it, of somebody who has told git his name."""
    root, home = folder / "project", folder / "home"
    root.mkdir(parents=True)
    home.mkdir()
    named = "[user]\nname = tests\nemail = tests@localhost\n[init]\ndefaultBranch = main\n"
    (home / ".gitconfig").write_text(named)
    return Scratch(root, home, {"CUDA_VISIBLE_DEVICES": ""})


def make(folder: Path) -> Scratch:
    """A git repository with the workloads `steps.train` and `copies.into_place`, committed."""
    project = empty(folder)
    write_files(FIRST, project.root)
    write_files("`Prepared`", project.root)
    (project.root / "asv.conf.json").write_text('{"build_command": []}')
    project.git("init", "-q")
    project.commit("workloads of my own")
    return project


@contextmanager
def forgotten() -> Iterator[None]:
    """What a project's workloads leave in this process is gone afterwards; hostbench's stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKLOADS, "")  # where this is, nothing is read yet
        load()
    known, modules = dict(workload.REGISTRY), set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("path", "meta_path"):
            patch.setattr(sys, name, [*getattr(sys, name)])
        yield
    workload.REGISTRY.clear()
    workload.REGISTRY.update(known)
    for name in set(sys.modules) - modules:
        if name.startswith(("benchmarks_of_user", "mine")):
            del sys.modules[name]


def shell(project: Scratch, line: str) -> tuple[int, str]:
    """(exit code, all that it printed) of a line as it stands in the page."""
    path = project.environ.get("PATH") or f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=project.root,
        env=project.env(PATH=path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout
