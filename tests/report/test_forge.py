"""The address of a commit's page: what is configured is followed, what is hostile is no link."""

import json
from pathlib import Path

import pytest

from hostbench.report.forge import commit_page, commit_prefix, of_remote
from hostbench.vcs.repo import git

COMMIT = "f054cbad" * 5
GITHUB = "https://github.com/o/r/commit/"


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("git@github.com:o/r.git", GITHUB),
        ("ssh://git@github.com:22/o/r.git", GITHUB),
        ("https://me:token@github.com/o/r.git", GITHUB),
        ("https://gitlab.x.org:8443/a/b/r", "https://gitlab.x.org:8443/a/b/r/-/commit/"),
        ("git@bitbucket.org:o/r", "https://bitbucket.org/o/r/commits/"),
        ("https://x.org/o/r.git", None),  # which forge is not known
        ("http://github.com/o/r", None),
        ("javascript:alert(1)//github.com/o/r", None),
        ("https://github.com/o/r r", None),
        ("https://github.com/o/r)[x](https://evil.org", None),
        ("https://github.com/o/r\nhttps://evil.org", None),
        ("https://evil.org\\@github.com/o/r", None),
        ("/home/me/github/r", None),
        ("", None),
    ],
)
def test_a_remote_names_its_forge(remote: str, expected: str | None) -> None:
    assert of_remote(remote) == expected


def test_only_a_hash_makes_a_page() -> None:
    assert commit_page(GITHUB, COMMIT) == GITHUB + COMMIT
    for commit in ("../../evil", "", None, float("nan"), f"{COMMIT}/x", COMMIT.upper()):
        assert commit_page(GITHUB, commit) is None
    assert commit_page(None, COMMIT) is None


def test_the_configuration_comes_before_the_remote(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    results = project / "results"
    for folder in (results, elsewhere):
        folder.mkdir(parents=True)
    git(project, "init", "-q")
    git(project, "remote", "add", "origin", "git@github.com:o/r.git")
    assert commit_prefix(elsewhere, project) == commit_prefix(None, project) == GITHUB
    config = project / "asv.conf.json"
    for said, expected in (
        ({"show_commit_url": "https://git.x.org/log/?id="}, "https://git.x.org/log/?id="),
        ({"show_commit_url": "https://me:token@x.org/commit/"}, GITHUB),
        ({"show_commit_url": "javascript:alert(1)//"}, GITHUB),
        ({"show_commit_url": "https://x.org/[a](b)/"}, GITHUB),
        (
            {"show_commit_url": "#", "repo": "https://gitlab.com/a/b.git"},
            "https://gitlab.com/a/b/-/commit/",
        ),
        ({"repo": "."}, GITHUB),
        ([], None),
    ):
        config.write_text(json.dumps(said))
        assert commit_prefix(results, elsewhere) == expected
