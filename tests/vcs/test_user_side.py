"""Sides of a project of one's own: which copy of its package is measured, and how it is built."""

import json
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asv import config as asv_conf
from asv import util as asv_util
from asv.environment import EnvironmentUnavailable

from hostbench import asv_env, families
from hostbench.cli import measuring
from hostbench.core import own_package, user_project
from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.own_package import OwnPackage
from hostbench.core.user_project import WORKLOADS
from hostbench.runner import server
from hostbench.vcs import repo, side
from hostbench.vcs.repo import Checkout
from hostbench.vcs.side import Side
from tests import own_project
from tests.scratch import git, put

CONFIG = {"version": 1, "project": "mine", "repo": "."}
WORKLOAD = """
from hostbench import DEVICES, workload

import mine
{more}

@workload(axes={{"device": DEVICES}}, moves=lambda **_: mine.NUM_BYTES, version="1")
def copy(device):
    source, target = device.buffer(mine.NUM_BYTES), device.buffer(mine.NUM_BYTES)
    return lambda: device.copy(target, source, blocking=True)
"""
CASE = "sides.copy[device=cuda]"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        put(root / name.replace("__", "/").replace("_py", ".py"), text)


def configure(root: Path, **more: Any) -> None:
    (root / "asv.conf.json").write_text(json.dumps({**CONFIG, **more}))


def commit(root: Path, num_bytes: int) -> str:
    write(root, src__mine_py=f"NUM_BYTES = {num_bytes}\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", f"{num_bytes} bytes")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one commit, whose workload copies what its package says."""
    root = tmp_path_factory.mktemp("made")
    write(root, benchmarks__sides_py=WORKLOAD.format(more=""))
    configure(root)
    (root / ".gitignore").write_text("results/\n")
    git(root, "init", "-q", "-b", "main")
    commit(root, 1 << 20)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same, to be changed; the test is there."""
    root = shutil.copytree(made, tmp_path / "project", copy_function=shutil.copy)
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOSTBENCH_MACHINE", "shelf")
    monkeypatch.setattr(measuring, "become_subreaper", lambda: None)
    with own_project.forgotten():
        yield root


def make(root: Path, name: str | None, folder: Path) -> Side:
    code = Checkout(commit=git(root, "rev-parse", "HEAD"), committed_at=None, scratch=None)
    return side.make(root, name, code, folder)


def package(made: Side) -> OwnPackage:
    copy = own_package.declared(made.variables)
    assert copy is not None
    return copy


def text_of(made: Side) -> str:
    """The package's text."""
    return Path(package(made).folder, "mine.py").read_text()


def test_what_one_commit_cannot_run_is_left_out_with_its_reason(root: Path, tmp_path: Path) -> None:
    write(root, benchmarks__sides_py=WORKLOAD.format(more="from mine import MORE\n"))
    old = make(root, "main", tmp_path / "ab" / "a")
    new = replace(old, name="new", versions={CASE: "1"}, broken={})
    cases, notes = side.comparable((Case("sides.copy", {"device": "cuda"}),), (old, new))
    (left_out,) = notes
    assert not cases and left_out.startswith("1 case left out, not in main: the family 'sides' ")
    assert "cannot be imported: ImportError: cannot import name 'MORE' from 'mine'" in left_out
    assert old.code.scratch == "workloads with uncommitted changes"


def test_a_side_is_its_files_as_they_were(root: Path, tmp_path: Path) -> None:
    (root / "src" / "link.py").symlink_to("mine.py")
    first, second = make(root, "HEAD", tmp_path / "a"), make(root, None, tmp_path / "b")
    write(root, src__mine_py="later", benchmarks__sides_py="later")
    assert text_of(first) == text_of(second) == "NUM_BYTES = 1048576\n"
    assert Path(package(second).folder, "link.py").is_symlink()
    assert first.variables[WORKLOADS] == second.variables[WORKLOADS]
    assert "later" not in Path(first.variables[WORKLOADS], "sides.py").read_text()
    assert package(first).names == package(second).names == ("link", "mine")
    changed = "M benchmarks/sides.py\n M src/mine.py\n?? src/link.py"
    assert git(root, "status", "--porcelain") == changed
    assert not git(root, "fsck", "--unreachable"), "nothing was added to the repository"


@pytest.mark.parametrize("layout", ["src/mine.py", "mine/__init__.py"])
def test_a_run_of_another_copy_belongs_to_no_commit(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    """What is built is measured as it is installed."""
    (root / "src" / "mine.py").unlink()
    site = tmp_path / "site"
    for top in (root, site):
        path = top / layout.removeprefix("src/" if top == site else "")
        put(path, "NUM_BYTES = 1\n")
    monkeypatch.syspath_prepend(str(site))
    code = partial(repo.checkout, root, root / "results", {})
    before = code()
    assert before.scratch == "uncommitted changes"
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "another layout")
    (root / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    git(root, "add", "pyproject.toml")
    git(root, "commit", "-q", "-m", "built")
    assert code().scratch is None and code().commit == git(root, "rev-parse", "HEAD")
    path.write_text("NUM_BYTES = 2\n")
    assert code().scratch == "another mine is installed: `pip install -e .` puts this one there"
    configure(root, build_command=[])
    assert user_project.another_installed(root) is None


def test_a_hook_of_git_leaves_the_checkout_alone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git tells a hook where its repository is, and would believe it in the clone, too."""
    commit(root, 2)
    monkeypatch.setenv("GIT_DIR", str(root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(root / ".git" / "index"))
    repo.check_out(root, "HEAD~1", tmp_path / "there")
    assert (tmp_path / "there" / "src" / "mine.py").read_text() == "NUM_BYTES = 1048576\n"
    assert git(root, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert not git(root, "status", "--porcelain")


SETUP = "import setuptools; setuptools.setup(name='mine', package_dir={'': 'src'})"


def test_pip_builds_the_package_into_a_folder_of_its_own(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # what a build needs is there
    write(root, setup_py=SETUP)
    commit(root, 2)
    installed = Path(pytest.__file__).parent.parent
    before = sorted(installed.iterdir())
    assert side.not_followed(root) == []
    configure(root, build_command=["make all"])
    found = package(make(root, "HEAD", tmp_path / "a"))
    (note,) = side.not_followed(root)
    assert "build_command of asv.conf.json is not followed" in note
    assert (Path(found.folder) / "mine.py").read_text() == "NUM_BYTES = 2\n"
    assert Path(found.folder).is_relative_to(tmp_path) and found.names == ("mine",)
    assert sorted(installed.iterdir()) == before


@pytest.mark.parametrize(
    ("files", "config", "why"),
    [
        ({"setup_py": "raise SystemExit('no compiler')"}, {}, "no compiler"),
        ({"setup_py": "import time; time.sleep(9)"}, {"install_timeout": 0.1}, "within 0.1 s"),
        ({}, {"build_command": 3}, "got `int` - at `$.build_command`"),
    ],
)
def test_a_build_that_fails_says_why(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    config: dict[str, Any],
    why: str,
) -> None:
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    write(root, **files)
    configure(root, **config)
    commit(root, 2)
    with pytest.raises(BrokenError) as raised:
        make(root, "main", tmp_path / "a")
    assert "main (" in str(raised.value) and "cannot be measured: " in str(raised.value)
    assert why in str(raised.value)


def test_questions_that_are_none_are_refused_in_words(root: Path) -> None:
    write(root, benchmarks__sides_py=f"{WORKLOAD.format(more='')}\nQUESTIONS = 'Is it fast?'")
    with pytest.raises(UsageError, match=r"QUESTIONS of the family 'sides' is 'Is it fast\?', no"):
        families.questions("sides")


@pytest.mark.parametrize("text", ['PRELOAD = "mine"', 'PRELOAD = ("mine", "nonesuch")'])
def test_what_a_workload_names_is_imported_before_the_launches(root: Path, text: str) -> None:
    write(root, benchmarks__sides_py=f"{text}\n{WORKLOAD.format(more='')}")
    assert families.preloads(("transfer",)) == ()  # nothing for other families' launches
    server._import(families.preloads(("sides",)), Exception, SystemExit)
    assert sys.modules["mine"].__file__ == str(root / "src" / "mine.py")


# One copy, and no other


def test_an_editable_install_answers_for_nothing(tmp_path: Path, root: Path) -> None:
    write(tmp_path, old__mine_abc_py="", new__mine_abc_py="", new__mine_xyz_py="")
    new = [str(tmp_path / "new")]  # it answers before anything else does
    editable: Any = SimpleNamespace(find_spec=lambda name, *_: PathFinder.find_spec(name, new))
    sys.meta_path.insert(0, editable)
    names = ("mine_abc", "mine_xyz")
    copy = OwnPackage(folder=str(tmp_path / "old"), names=names)
    own_package.import_from(copy)
    import mine_abc  # type: ignore[import-not-found]

    with pytest.raises(ModuleNotFoundError, match="in the code that is measured"):
        import mine_xyz  # type: ignore[import-not-found]  # noqa: F401
    assert mine_abc.__file__ == str(tmp_path / "old" / "mine_abc.py")


def test_what_lies_in_a_folder_of_several_projects_is_of_the_copy_too(tmp_path: Path) -> None:
    """`company` has no `__init__.py`: what else is installed may add to it, not answer for it."""
    write(tmp_path, old__src__company__abc_py="", new__company__xyz_py="")
    write(tmp_path, new__company__abc_py="", new__company__other_py="")
    (tmp_path / "old" / "src" / "loop").symlink_to(".")
    copy = user_project.unbuilt(tmp_path, tmp_path / "old")
    assert copy.names == ("company.abc",) and copy.folder == str(tmp_path / "old" / "src")
    copy = replace(copy, names=("company.abc", "company.xyz"))
    with own_project.forgotten():
        sys.path.insert(0, str(tmp_path / "new"))
        own_package.import_from(copy)
        import company.abc  # type: ignore[import-not-found]
        import company.other  # type: ignore[import-not-found]

        with pytest.raises(ModuleNotFoundError, match="in the code that is measured"):
            import company.xyz  # type: ignore[import-not-found]
        assert company.other.__file__ == str(tmp_path / "new" / "company" / "other.py")
        assert company.abc.__file__ == str(tmp_path / "old" / "src" / "company" / "abc.py")
    for name in ("company", "company.abc", "company.other"):
        sys.modules.pop(name, None)


# asv's environment


def test_asv_has_the_package_of_the_commit_that_it_checked_out(root: Path, tmp_path: Path) -> None:
    config = asv_conf.Config.from_json({**CONFIG, "env_dir": str(tmp_path / "env")})
    environment = asv_env.HostbenchEnvironment(config, "same", {}, {})
    environment.create()
    tree = tmp_path / "tree"
    write(tree, src__mine_py="NUM_BYTES = 3")
    environment._install_project(None, "f" * 40, str(tree))
    code = "from hostbench.families import known; known(); import mine; print(mine.__file__)"
    assert environment.run(["-c", code]).strip() == str(tree / "src" / "mine.py")
    plain = tmp_path / "plain.py"  # a benchmark that knows nothing of hostbench
    plain.write_text("import mine; print(mine.__file__)")
    assert environment.run([str(plain)]).strip() == str(tree / "src" / "mine.py")


def test_what_asv_would_have_to_install_is_refused() -> None:
    """Its numbers would be kept under versions that were not measured."""
    config = asv_conf.Config.from_json(CONFIG)
    with pytest.raises(EnvironmentUnavailable, match="leave `pythons`, and `req`"):
        asv_env.HostbenchEnvironment(config, "same", {"numpy": "1.26"}, {})


def test_asv_goes_on_after_a_build_that_fails_and_says_why(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(root, build_command=3)
    config = asv_conf.Config.from_json({**CONFIG, "env_dir": str(tmp_path / "env")})
    environment = asv_env.HostbenchEnvironment(config, "same", {}, {})
    environment.create()
    with pytest.raises(asv_util.ProcessError):
        environment._install_project(None, "f" * 40, str(root))
    assert "hostbench: ffffffff: " in capsys.readouterr().err


def test_a_module_named_as_one_of_pythons_takes_no_ones_place(tmp_path: Path) -> None:
    write(tmp_path, queue_py="raise SystemExit('not this one')", hostbench_py="", mine_abc_py="")
    (tmp_path / "__editable___mine_finder.py").touch()  # of setuptools
    names = user_project.names_in(tmp_path, tmp_path)
    assert names == ("mine_abc",)
    with own_project.forgotten():
        own_package.import_from(OwnPackage(folder=str(tmp_path), names=names))
        place = sys.path.index(str(tmp_path))
        stdlib = sys.path.index(sysconfig.get_path("stdlib"))
        site = sys.path.index(sysconfig.get_path("purelib"))
        assert stdlib < place < site
