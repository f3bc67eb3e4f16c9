"""`hostbench init`: what it writes, what it leaves, and what it refuses before it writes."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostbench.core import asv_config
from hostbench.core.errors import EXIT_USAGE
from hostbench.families import load
from hostbench.report.questions import asked
from tests import own_project
from tests.commands import hostbench
from tests.scratch import git, put
from tests.test_layers import ROOT

SHARE, WORKFLOW = ".github/share-results.sh", ".github/workflows/hostbench-nightly.yml"
FIRST = """
from hostbench import DEVICES, workload


@workload(axes={"device": DEVICES}, version="1")
def nothing(device):
    return lambda: None
"""
WRITTEN = [
    SHARE,
    WORKFLOW,
    ".gitignore",
    "asv.conf.json",
    "benchmarks/__init__.py",
    "benchmarks/steps.py",
    "example_model.py",
    "results/.gitignore",
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty repository; what a project's workloads leave in this process is taken away."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "argv", ["hostbench", "init"])
    with own_project.forgotten():
        yield root


def files(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    names = {str(path.relative_to(root)): path.read_bytes() for path in found}
    return {name: data for name, data in sorted(names.items()) if not name.startswith(".git/")}


def test_an_empty_repository_gets_all_and_twice_is_harmless(root: Path) -> None:
    said = hostbench("init").out
    before = files(root)
    assert [*before] == WRITTEN
    for name, recipe in ((WORKFLOW, "github-nightly.yml"), (SHARE, "share-results.sh")):
        assert before[name].decode() == (ROOT / "docs" / "recipes" / recipe).read_text()
    assert not asv_config.is_built(root, root)
    assert {str(case) for case in load(("steps",))["steps.train"].cases()} == {
        f"steps.train[device={device},num_examples={num}]"
        for device in ("cuda", "cpu")
        for num in (32, 256)
    }
    assert git(root, "check-ignore", "results/x/y.journal.jsonl", ".asv/x", "a/__pycache__/x")
    again = hostbench("init").out
    assert files(root) == before and "wrote" not in again
    commands = [line.split(" # ")[0].strip() for line in said.partition("then:\n")[2].splitlines()]
    assert commands == [
        "hostbench run --quick",
        'git add . && git commit -m "Benchmarks by hostbench"',
        "hostbench ab HEAD",
        "hostbench dashboard",
    ]
    assert "(no commits yet): commit what there is" in hostbench("ab", "HEAD", code=EXIT_USAGE).err


@pytest.mark.parametrize("file", ["mine/__init__.py", "mine.py", "mine/inner/__init__.py"])
def test_its_package_is_found_and_its_import_is_measured(root: Path, file: str) -> None:
    file = f"src/{file}"
    name = "mine-inner" if "inner" in file else "mine"
    put(root / "tests/__init__.py")
    put(root / "src/mine_lib/__init__.py")
    put(root / file)
    put(root / "pyproject.toml", f'[project]\nname = "{name}"\nversion = "1"')
    hostbench("init")
    assert not asv_config.is_built(root, root)
    assert {path.name for path in (root / "benchmarks").glob("*.py")} == {
        "__init__.py",
        "startup.py",
    }
    declared = tomllib.loads((root / "pyproject.toml").read_text())
    assert declared["project"]["name"] == name
    (question,) = (one.text for one in asked("startup"))
    name = name.replace("-", ".")
    assert question == f"The import of {name} in a new Python: what does it cost?"
    step = load(("startup",))["startup.import_package"].build(None)
    assert step().returncode == 0  # type: ignore[union-attr, operator]
    put(root / file, "__file__ = 'another copy'")
    with pytest.raises(subprocess.CalledProcessError):
        step()  # type: ignore[operator]


def test_what_is_there_is_left(root: Path) -> None:
    put(root / "asv.conf.json", '{"benchmark_dir": "perf", "results_dir": "numbers"}')
    put(root / ".gitignore", "numbers/\n")
    put(root / "perf/more.py", FIRST)
    before = files(root)
    said = hostbench("init").out
    assert {name: files(root)[name] for name in before} == before
    assert {*files(root)} - {*before} == {
        *("perf/__init__.py", "numbers/.gitignore", SHARE, WORKFLOW)
    }
    assert 'your asv.conf.json lacks "plugins": [".hostbench.asv_env"]' in said
    assert "git is to ignore .asv/ and __pycache__/, and to keep numbers/\n" in said


def test_in_a_subfolder_the_file_for_git_says_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "src").mkdir()
    monkeypatch.chdir(root / "src")
    hostbench("init")
    assert "goes to results/, and" in (root / ".gitignore").read_text()


def link_out(root: Path, name: str) -> None:
    (root / name).symlink_to(root.parent, target_is_directory=True)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: link_out(root, ".github"), "is outside"),
        (lambda root: link_out(root, "benchmarks"), "is outside"),
        (lambda root: put(root / "asv.conf.json", '{"results_dir": "../out"}'), "is outside"),
        (lambda root: put(root / "asv.conf.json", "{"), "cannot read"),
    ],
)
def test_nothing_is_written_where_all_cannot_be(root: Path, spoil: object, said: str) -> None:
    assert callable(spoil)
    spoil(root)
    before = files(root.parent)
    assert said in hostbench("init", code=EXIT_USAGE).err and files(root.parent) == before


def test_no_repository_a_bare_one_and_hostbench_itself(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    assert "`git init` makes" in hostbench("init", code=EXIT_USAGE).err
    git(root.parent, "init", "-q", "--bare", "bare")
    monkeypatch.chdir(root.parent / "bare")
    assert "in a work tree" in hostbench("init", code=EXIT_USAGE).err
    monkeypatch.chdir(root)
    put(root / "hostbench/asv_env.py")
    assert "own checkout" in hostbench("init", code=EXIT_USAGE).err
    assert [*files(root)] == ["hostbench/asv_env.py"]
