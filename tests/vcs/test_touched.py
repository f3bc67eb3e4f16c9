"""Which families a change can touch: in hostbench's own checkout, and in a project of one's own."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hostbench import families
from hostbench.vcs import own
from hostbench.vcs.touched import Touched, touched
from tests.turns import git

TRANSFER = "hostbench/families/transfer/workloads.py"
OVERLAP = "hostbench/families/overlap/workloads.py"
FILES = {
    "asv.conf.json": "{}",
    TRANSFER: "from hostbench.core import units\nfrom hostbench import DEVICES\nimport docs.units",
    "docs/units.py": "",
    OVERLAP: "from hostbench.families.overlap import loops",
    "hostbench/families/overlap/loops.py": "",
    "hostbench/families/transfer/questions.py": "import hostbench.report.kinds",
    "hostbench/families/__init__.py": "importlib.import_module(name)",
    "hostbench/__init__.py": "_HOME = {'Compare': 'hostbench.report.kinds'}",
    "hostbench/report/kinds.py": "",
    "hostbench/core/units.py": "",
    "hostbench/measure/workload.py": "",
    "hostbench/runner/worker.py": "from hostbench.families import load\nimport_module(name)",
    "README.md": "",
    "tests/test_it.py": "import hostbench.core.units",
}
BOTH = ("transfer", "overlap")


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def committed(root: Path) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "change")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    for name, text in FILES.items():
        write(tmp_path, name, text)
    committed(tmp_path)
    return tmp_path


def changed(root: Path, name: str, text: str = "x = 1", asked: Sequence[str] = BOTH) -> Touched:
    write(root, name, text)
    return touched(root, git(root, "rev-parse", "HEAD"), None, asked)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (TRANSFER, ("transfer",)),
        ("hostbench/core/units.py", ("transfer",)),
        ("hostbench/measure/workload.py", ("transfer",)),
        ("hostbench/families/overlap/loops.py", ("overlap",)),
        ("hostbench/runner/worker.py", BOTH),
        ("hostbench/__init__.py", BOTH),
        ("hostbench/report/kinds.py", ()),
        ("hostbench/families/transfer/questions.py", ()),
        ("hostbench/new.py", ()),
        ("tests/test_it.py", ()),
        ("README.md", ()),
        ("docs/data.svg", ()),
        ("LICENSE.txt", ()),
        ("docs/units.py", ("transfer",)),
        ("results/shelf/x.json", ()),
        ("pyproject.toml", BOTH),
        ("setup.py", BOTH),
        ("hostbench/data.json", BOTH),
        ("src/fast.c", BOTH),
        ("hostbench/prompt.md", BOTH),
        (".gitattributes", BOTH),
    ],
)
def test_a_family_is_touched_by_what_it_imports(
    root: Path, name: str, found: tuple[str, ...]
) -> None:
    assert changed(root, name).families == found


def test_what_is_left_out_is_said(root: Path) -> None:
    assert changed(root, TRANSFER).remarks == (
        f"--changed: {TRANSFER} changed, which can touch transfer",
        "--changed leaves out, for they import nothing that changed: overlap",
    )
    assert changed(root, "setup.cfg").remarks == (
        "--changed leaves nothing out: setup.cfg changed, and no import tells what that touches",
    )


def test_a_file_of_one_side_alone_counts(root: Path) -> None:
    """What tries to import it is the same on both."""
    write(root, OVERLAP, "try:\n    from hostbench import fast\nexcept ImportError: pass")
    lacks = committed(root)
    write(root, "hostbench/fast.py", "")
    has = committed(root)
    git(root, "checkout", "-q", lacks)
    assert touched(root, lacks, has, BOTH).families == ("overlap",)
    assert touched(root, has, lacks, BOTH).families == ("overlap",)
    assert touched(root, has, None, BOTH).families == ("overlap",)


def test_results_elsewhere_are_no_change(root: Path) -> None:
    write(root, "measured/shelf/x.json", "{}")
    head = git(root, "rev-parse", "HEAD")
    assert touched(root, head, None, BOTH).families == BOTH
    assert touched(root, head, None, BOTH, root / "measured").families == ()


def test_where_a_link_leads_nobody_tells(root: Path) -> None:
    (root / "hostbench" / "fast.py").symlink_to("core/units.py")
    old = committed(root)
    assert changed(root, "README.md").families == ()
    told = changed(root, TRANSFER)
    assert told.families == BOTH and "hostbench/fast.py: no import tells" in told.remarks[0]
    assert touched(root, old, committed(root), BOTH).families == BOTH


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project below the top of its repository, whose workloads import its package."""
    root = tmp_path / "repository" / "project"
    for name, text in {
        "asv.conf.json": '{"build_command": ["python tools/make.py"]}',
        "pyproject.toml": '[build-system]\nbuild-backend = "made:it"',
        "setup.py": "import versions\nexec(text)",
        "versions.py": "",
        "made.py": "",
        "tools/make.py": "from . import parts",
        "tools/parts.py": "",
        "bench/steps.py": "import mine.fast\nfrom . import _help",
        "bench/slow.py": "import mine.lazy",
        "bench/_help.py": "",
        "src/mine/__init__.py": "",
        "src/mine/fast.py": "",
        "src/mine/lazy.py": "\nimportlib.import_module(name)",
        "src/mine/other.py": "",
    }.items():
        write(root, name, text)
    git(root.parent, "init", "-q", "-b", "main")
    committed(root.parent)
    monkeypatch.setattr(own, "is_own", lambda root: True)
    monkeypatch.setattr(own, "folders", lambda: (root / "bench",))
    monkeypatch.setattr(families, "sources", lambda family: [root / "bench" / f"{family}.py"])
    monkeypatch.setattr(families, "module_name", lambda family: f"hostbench_workloads.{family}")
    return root


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("src/mine/fast.py", ("steps", "slow")),
        ("src/mine/__init__.py", ("steps", "slow")),
        ("bench/_help.py", ("steps", "slow")),
        ("src/mine/other.py", ("slow",)),
        ("../README.md", ()),
        ("../libs/fast.cpp", ("steps", "slow")),
        ("versions.py", ("steps", "slow")),
        ("made.py", ("steps", "slow")),
        ("tools/parts.py", ("steps", "slow")),
    ],
)
def test_a_project_of_ones_own(mine: Path, name: str, found: tuple[str, ...]) -> None:
    """`slow` imports by a name that shows only when it runs: any module may be meant."""
    told = changed(mine, name, asked=("steps", "slow"))
    assert told.families == found
    if found == ("slow",):
        assert told.remarks[0] == (
            "--changed: project/src/mine/lazy.py:2 imports by a name that shows only when it runs, "
            "which can touch slow"
        )


def test_both_sides_have_the_workloads_of_the_working_tree(mine: Path) -> None:
    """What their helpers import now counts, whatever they imported at the commits."""
    old = git(mine, "rev-parse", "HEAD")
    write(mine, "src/mine/other.py", "x = 1")
    new = committed(mine)
    assert touched(mine, old, new, ("steps",)).families == ()
    write(mine, "bench/_help.py", "from . import _new")
    write(mine, "bench/_new.py", "import mine.other")
    assert touched(mine, old, new, ("steps",)).families == ("steps",)


def test_workloads_that_the_package_brings_are_each_commits(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever copy of them is installed, and whatever that one imports."""
    write(mine, "src/mine/brought.py", "import mine.other")
    old = committed(mine)
    write(mine, "src/mine/other.py", "x = 1")
    new = committed(mine)
    write(mine, "src/mine/brought.py", "")
    installed = mine.parent.parent / "site-packages"
    write(installed, "mine/brought.py", "")
    for copy in (installed / "mine", mine / "src" / "mine"):
        monkeypatch.setattr(families, "sources", lambda family, copy=copy: [copy / "brought.py"])
        monkeypatch.setattr(families, "module_name", lambda family: "mine.brought")
        assert touched(mine, old, new, ("brought",)).families == ("brought",)
        assert touched(mine, new, None, ("brought",)).families == ("brought",)
