"""A project of one's own, made of what CONTRIBUTING.md prints and of nothing else."""

import re
from pathlib import Path

from tests.scratch import TREE, Scratch


def printed(language: str, start: str) -> str:
    """The block of CONTRIBUTING.md in this language that starts so."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (TREE / "CONTRIBUTING.md").read_text(), re.S)
    (found,) = (block for block in blocks if block.startswith(start))
    return str(found)


def make(folder: Path) -> Scratch:
    """A git repository with the workloads `steps.add` and `copies.into_place`, committed."""
    root, home = folder / "project", folder / "home"
    (root / "bench").mkdir(parents=True)
    home.mkdir()
    (root / "pyproject.toml").write_text(printed("toml", "[tool.hostbench]"))
    steps = printed("python", "# bench/steps.py"), printed("python", "# at the end of bench/steps")
    (root / "bench" / "steps.py").write_text("\n".join(steps))
    (root / "bench" / "copies.py").write_text(printed("python", "# bench/copies.py"))
    (home / ".gitconfig").write_text("[user]\nname = tests\nemail = tests@localhost\n")
    project = Scratch(root, home, {"CUDA_VISIBLE_DEVICES": ""})
    project.git("init", "-q", "-b", "main")
    project.commit("a workload of my own")
    return project


def with_asv(project: Scratch) -> None:
    """What it needs beside for asv, as printed."""
    (project.root / "asv.conf.json").write_text(printed("json", "{"))
    (project.root / ".gitignore").write_text(".asv/\n")


def commands() -> list[str]:
    """What CONTRIBUTING.md says to do then, in its order."""
    return printed("sh", "hostbench list").splitlines()
