"""What git says: numbers belong to a commit only where its code, unchanged, is what is measured."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hostbench.core import asv_config
from hostbench.core.errors import UsageError
from hostbench.vcs import repo
from hostbench.vcs.repo import GitError, checkout, landed
from tests.scratch import git, put

FAR = "@32503680000 +0000"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository."""
    for name in ("results/kept.json", "hostbench/__init__.py", "asv.conf.json"):
        put(tmp_path / name, "{}")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_a_clean_tree_is_its_commit(root: Path) -> None:
    """What is not tracked is a note, a journal; the results are no code."""
    clean = checkout(root, root / "results", {})
    assert clean.commit == git(root, "rev-parse", "HEAD") and clean.scratch is None
    assert clean.committed_at == git(root, "show", "-s", "--format=%cI")
    (root / "hostbench" / "new.py").write_text("new")
    (root / "results" / "kept.json").write_text("measured again")
    assert checkout(root, root / "results", {}) == clean
    assert checkout(root, Path("/elsewhere"), {}).scratch == "uncommitted changes"
    git(root, "add", "hostbench")
    dirty = checkout(root, root / "results", {})
    assert (dirty.commit, dirty.scratch) == (clean.commit, "uncommitted changes")
    git(root, "commit", "-q", "-m", "in the year 3000", GIT_COMMITTER_DATE=FAR)
    assert checkout(root, root / "results", {}).committed_at is None, "a date that nothing can keep"


def test_without_a_repository_there_is_no_commit(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason names the remedy, and no path of this machine."""

    def scratch(of: Path | None = root) -> str:
        code = checkout(of, root / "results", {})
        assert code.commit is None and code.committed_at is None
        return str(code.scratch)

    bare = tmp_path_factory.mktemp("bare")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(bare.parent))
    assert scratch(bare) == "no git repository"
    assert scratch(None) == "no asv.conf.json"
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    reason = scratch()
    assert reason.startswith("another user owns") and "safe.directory" in reason
    assert str(root) not in reason
    monkeypatch.setenv("PATH", str(root / "nothing"))
    assert scratch().startswith("git is not installed")


def test_a_commit_has_the_families_that_it_holds(root: Path) -> None:
    own, installed = root / "bench" / "steps.py", root / ".venv" / "lib" / "hostbench" / "copies.py"
    for path in (own, installed):
        put(path, "code")

    def scratch(**sources: Path) -> str | None:
        return checkout(root, root / "results", sources).scratch

    assert scratch(steps=own) == "the file of steps is not in the commit"
    git(root, "add", "bench")
    git(root, "commit", "-q", "-m", "steps")
    assert scratch(steps=own) is None
    assert scratch(steps=own, copies=installed) == "the file of copies is not in the commit"
    own.write_text("other code")
    assert scratch(steps=own) == "uncommitted changes"


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ('{\n  // where\n  "results_dir": "out/there"\n}', "out/there"),
        ('{/* "results_dir": "x",\n */ "results_dir": "a//b",}', "a/b"),
        ('{"x": ["/*", "*/", ",]",], // "]\n"results_dir": "a//b",\n}', "a/b"),
        ('{"x": "a \\" // b", "results_dir": "a//b"}', "a/b"),
        ("{}", "results"),
        *((text, None) for text in ("{", "[]", "null", "3", '{"results_dir": 3}', "{results_dir")),
    ],
)
def test_where_asv_keeps_results(root: Path, text: str, folder: str | None) -> None:
    assert asv_config.project_root(root / "hostbench" / "deep") == root
    (root / "asv.conf.json").write_text(text)
    if folder is not None:
        assert asv_config.asv_results(root) == root / folder
        return
    with pytest.raises(UsageError, match=r"asv\.conf\.json"):
        asv_config.asv_results(root)


def test_what_landed_between_two_commits(root: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    for subject in ("two", "three\ttabs"):
        git(root, "commit", "-q", "--allow-empty", "-m", subject)
    last = git(root, "rev-parse", "HEAD")
    found = landed(root, first, last)
    assert found is not None and [subject for _, subject in found] == ["three\ttabs", "two"]
    assert found[0][0] == last
    assert landed(root, last, first) == []
    assert landed(root, first, "f" * 40) is None
    assert landed(root, "--all", last) is None


@pytest.mark.parametrize("name", ["--output=there", "-Othere", "--all", "HEAD\0", "a..b:c^{/x"])
def test_a_hostile_name_is_no_commit_and_does_nothing(root: Path, name: str) -> None:
    """`git show --output=FILE` writes over a file."""
    there = root / "there"
    there.write_text("kept")
    assert repo.commit_of(root, name) is None
    assert repo.committed_at(root, name) is None
    assert landed(root, name, "HEAD") is None
    asks: list[Callable[[], object]] = [
        lambda: repo.about(root, name),
        lambda: repo.differ(root, name, "HEAD", ["x"]),
        lambda: repo.check_out(root, name, root / "y"),
    ]
    for ask in asks:
        with pytest.raises(GitError):
            ask()
    assert there.read_text() == "kept"
