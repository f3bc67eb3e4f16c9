"""`hostbench comment`: on GitHub and GitLab, one comment, updated in place, and safe."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostbench.cli import main
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_USAGE,
    DataError,
)
from hostbench.notify import comments
from hostbench.notify.http import MOST_READ
from hostbench.notify.markup import MOST, safe
from hostbench.report.comment import Asked, of_nothing
from tests.notify.servers import Host, host

TOKEN = "T0KEN-of-the-bot"
MARK = "<!-- hostbench: ab -->"
TEXT = f"{MARK}\n**Slower:** 1 of 20 cases.\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CI_API_V4_URL", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_API_URL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "comment.md"
    path.write_text(TEXT)
    return path


def on_github(hub: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, event: Any) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_API_URL", f"{hub.url}/")
    monkeypatch.setenv("GITHUB_REPOSITORY", "we/it")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))
    hub.answers |= {"GET /user": 403, "GET /repos/we/it/issues/7/comments": []}
    hub.answers |= {"POST /repos/we/it/issues/7/comments": {"id": 1}}


def test_made_then_updated_on_github(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the marker; a comment of somebody else with our marker is left alone."""
    with host() as hub:
        on_github(hub, monkeypatch, file.parent, {"pull_request": {"number": 7}})
        assert main(["comment", str(file)]) == EXIT_OK
        assert capfd.readouterr().out == "we/it#7: comment made\n"
        ((_, body),) = hub.named("POST")
        assert body == {"body": TEXT}
        bot, somebody = {"login": "github-actions[bot]"}, {"login": "eve"}
        hub.answers["GET /repos/we/it/issues/7/comments"] = [
            {"id": 3, "user": somebody, "body": TEXT},
            {"id": 4, "user": bot, "body": f"I quote {MARK}"},
            {"id": 5, "user": None, "body": None},
            {"id": 6, "user": bot, "body": f"{MARK}\nold"},
        ]
        hub.answers["PATCH /repos/we/it/issues/comments/6"] = {"id": 6}
        assert main(["comment", str(file)]) == EXIT_OK
    assert capfd.readouterr().out == "we/it#7: comment updated\n"
    assert hub.named("PATCH") == [("/repos/we/it/issues/comments/6", {"body": TEXT})]
    assert len(hub.named("POST")) == 1 and hub.tokens == {f"Bearer {TOKEN}"}


def test_the_request_of_a_fork_is_asked_of_github_not_of_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = {
        "head_sha": "1a" * 20,
        "head_branch": "x&state=all#$(id)",
        "head_repository": {"owner": {"login": "eve"}},
        "pull_requests": [],
    }
    with host() as hub:
        on_github(hub, monkeypatch, file.parent, {"workflow_run": ended})
        hub.answers["GET /repos/we/it/pulls"] = [
            {"number": 6, "head": {"sha": "2b" * 20}},
            {"number": 7, "head": {"sha": "1a" * 20}},
        ]
        assert main(["comment", str(file)]) == EXIT_OK
        assert "we/it#7" in capfd.readouterr().out
        asked = [path for path, _ in hub.named("GET") if "/pulls?" in path]
        assert asked == ["/repos/we/it/pulls?state=open&head=eve%3Ax%26state%3Dall%23%24%28id%29"]
        hub.answers["GET /repos/we/it/pulls"] = []
        assert main(["comment", str(file)]) == EXIT_NOTHING_MEASURED
        assert "no open pull request ends with the commit" in capfd.readouterr().err
        assert main(["comment", str(file), "--pull", "7"]) == EXIT_OK
    assert len(hub.named("POST")) == 2


def test_many_comments_are_many_pages(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comments, "_PAGE", 2)
    with host() as hub:
        on_github(hub, monkeypatch, file.parent, {"pull_request": {"number": 7}})
        hub.answers["GET /repos/we/it/issues/7/comments"] = [{"id": 1}, {"id": 2}]
        monkeypatch.setattr(comments, "_MOST_PAGES", 3)
        assert main(["comment", str(file)]) == EXIT_OK
    pages = [path.rpartition("=")[2] for path, _ in hub.named("GET") if "/comments" in path]
    assert pages == ["1", "2", "3"]


def test_made_then_updated_on_gitlab(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    notes = "/projects/42/merge_requests/9/notes"
    with host() as lab:
        monkeypatch.setenv("CI_API_V4_URL", lab.url)
        monkeypatch.setenv("CI_PROJECT_ID", "43")
        monkeypatch.setenv("CI_MERGE_REQUEST_PROJECT_ID", "42")
        monkeypatch.setenv("CI_MERGE_REQUEST_IID", "9")
        monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
        lab.answers |= {"GET /user": {"id": 5}, f"GET {notes}": [], f"POST {notes}": {"id": 1}}
        assert main(["comment", str(file)]) == EXIT_OK
        lab.answers[f"GET {notes}"] = [
            {"id": 2, "author": {"id": 6}, "body": TEXT},
            {"id": 3, "author": {"id": 5}, "body": TEXT},
        ]
        lab.answers[f"PUT {notes}/3"] = {"id": 3}
        assert main(["comment", str(file)]) == EXIT_OK
    said = capfd.readouterr().out
    assert said == "merge request !9: comment made\nmerge request !9: comment updated\n"
    assert lab.named("PUT") == [(f"{notes}/3", {"body": TEXT})] and lab.tokens == {TOKEN}


def test_what_goes_wrong_is_said_without_the_token(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def said(code: int) -> str:
        assert main(["comment", str(file)]) == code
        out = capfd.readouterr()
        assert TOKEN not in out.out + out.err
        return out.err

    assert "there is nothing to comment on" in said(EXIT_USAGE)
    with host() as hub:
        on_github(hub, monkeypatch, file.parent, {})
        assert "GitHub tells of no pull request here" in said(EXIT_USAGE)
        on_github(hub, monkeypatch, file.parent, {"pull_request": {"number": 7}})
        hub.answers["POST /repos/we/it/issues/7/comments"] = 422
        assert "GitHub refuses, with status 422" in said(EXIT_FAILED)
        hub.answers["GET /user"] = 401
        assert "GitHub refuses, with status 401: the token is wrong" in said(EXIT_FAILED)
        hub.answers |= {"GET /user": 403, "GET /repos/we/it/issues/7/comments": {"a": 1}}
        assert "GitHub answers with no list" in said(EXIT_FAILED)
        hub.answers["GET /repos/we/it/issues/7/comments"] = ["x" * MOST_READ]
        assert "or with more than 8 MiB" in said(EXIT_FAILED)
        odd = {"user": {"login": "github-actions[bot]"}, "body": TEXT}
        hub.answers["GET /repos/we/it/issues/7/comments"] = [odd]
        assert "the answer has no 'id'" in said(EXIT_FAILED)
        monkeypatch.setenv("GITHUB_TOKEN", f"{TOKEN}\nX: y")
        assert "GITHUB_TOKEN is no token" in said(EXIT_USAGE)
        monkeypatch.delenv("GITHUB_TOKEN")
        assert "GITHUB_TOKEN is not set" in said(EXIT_USAGE)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        monkeypatch.setenv("GITHUB_REPOSITORY", "we/it/../../x")
        assert "write it as owner/name" in said(EXIT_USAGE)
        monkeypatch.setenv("GITHUB_REPOSITORY", "we/it")
        monkeypatch.setenv("GITHUB_API_URL", "http://api.example")
        assert "GITHUB_API_URL is no address" in said(EXIT_USAGE)
    monkeypatch.setenv("GITHUB_API_URL", hub.url)
    assert "GitHub cannot be reached" in said(EXIT_FAILED)


def test_files_that_are_no_comment(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The artifact of a stranger's workflow: a link to a file of this job is no comment."""
    link = tmp_path / "link.md"
    link.symlink_to("/proc/self/environ")
    contents = {"big.md": b"x" * ((1 << 20) + 1), "odd.md": b"\xff", "none.md": b"no marker"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    said = {"link.md": "it is a link out of", "big.md": "larger than 1 MiB", "odd.md": "no UTF-8"}
    said |= {"none.md": "no line like <!-- hostbench: ab -->", "gone.md": "No such file"}
    for name, why in said.items():
        assert main(["comment", str(tmp_path / name)]) == EXIT_USAGE
        assert why in capsys.readouterr().err


def test_what_hostbench_writes_stays() -> None:
    text = (
        "**Slower:** 1 of 20 cases\n\n| case | change |\n| --- | ---: |\n"
        "| `transfer.many_tensors[num=1000]` | +5.1 % (4.0 to 6.2 %) |\n\n"
        "<details><summary>The rest</summary>\n\n- the same: 19\n\n</details>\n\n"
        "```\nhostbench ab main --case 'x[a=1]'\n```"
    )
    assert safe(f"{MARK}\n{text}\n") == (MARK, f"{MARK}\n{text}\n")


def test_the_comment_of_ab_says_the_same_when_posted() -> None:
    asked = Asked(
        names=("main", "HEAD"),
        subjects=("2026-11-21 first <b>", "see @org/team, #12, https://x.example"),
        machine="1x-nvidia-h200",
        command="hostbench ab main --case 'transfer.many_tensors[num=1000]'",
    )
    text = of_nothing("no case has numbers on both sides", asked)
    marker, posted = safe(text)
    assert marker == MARK
    assert posted.replace("\u200b", "").replace("&lt;b>", "<b>") == text
    assert posted.splitlines()[1] == text.splitlines()[1], "the answer stands as it is"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@org/team \\@me &#64;x a@b.c", "@|org/team \\@|me &amp;#|64;x a@|b.c"),
        ("[a](x) ![b](//c) [r]: y [a][r]", "[a]|(x) ![b]|(//c) [r]|: y [a]|[r]"),
        ("https://x www.x mailto:x", "https:|//x www|.x mailto:|x"),
        ("fixes #12 we/it#3 GH-4 !5", "fixes #|12 we/it#|3 GH-|4 !|5"),
        (
            "<img src=x><!-- --><a href=x><details open>",
            "&lt;img src=x>&lt;!-- -->&lt;a href=x>&lt;details open>",
        ),
        ("a\n/merge\n  /close\r\n/assign @me", "a\n|/merge\n  |/close\n|/assign @|me"),
        ("a\x1b[2J\u202eb\u200bc\x00", "a[2Jbc"),
        ("<!-- hostbench: night -->x", "x"),
    ],
)
def test_what_would_act_does_not(text: str, shown: str) -> None:
    assert safe(f"{MARK}\n{text}")[1] == f"{MARK}\n{shown}\n".replace("|", "\u200b")


def test_what_is_too_long_is_cut_at_a_line() -> None:
    text = safe(f"{MARK}\n" + "a line\n" * 20_000)[1]
    assert MOST < len(text) < 65_536 and "a line\n\nThe rest is cut off" in text
    with pytest.raises(DataError):
        safe("<!-- hostbench: $(id) -->")
