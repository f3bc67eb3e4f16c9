"""The commits of a story: their names, and a git repository that has them."""

import hashlib
import json
from pathlib import Path

from hostbench.core.errors import UsageError
from hostbench.vcs.repo import GitError, run_git
from tests.fakes.histories.story import DAY_S, Story

_WHO = "A Story <story@example.org>"
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name of a folder without files."""
_ASV = {
    "version": 1,
    "project": "simulated",
    "repo": ".",
    "branches": ["main"],
    "dvcs": "git",
    "environment_type": "virtualenv",
    "results_dir": "results",
    "html_dir": "html",
}


def messages(story: Story) -> list[str]:
    """One a commit: what the events of the code and of versions say that it did."""
    found = [f"Change number {number}" for number in range(story.commits)]
    for event in story.events:
        if event.kind in ("code", "version"):
            found[event.at] = event.cause or f"Change number {event.at}: {event.kind}"
            if event.until is not None and event.until < story.commits:
                found[event.until] = f'Revert "{found[event.at]}"'
    return found


def names(story: Story) -> list[str]:
    """40 hex digits each: the very ones that git gives to such commits."""
    found: list[str] = []
    for number, message in enumerate(messages(story)):
        who = f"{_WHO} {committed_s(story, number):.0f} +0000"
        parent = f"parent {found[-1]}\n" if found else ""
        text = f"tree {_EMPTY_TREE}\n{parent}author {who}\ncommitter {who}\n\n{message}\n"
        data = text.encode()
        found.append(hashlib.sha1(b"commit %d\0" % len(data) + data).hexdigest())
    return found


def committed_s(story: Story, number: int) -> float:
    """Seconds since the epoch."""
    return story.start_s + number * DAY_S


def repository(folder: Path, story: Story) -> None:
    """Make a repository of these commits, without files, and asv's configuration beside it.

    Raises UsageError where git cannot.
    """
    stream = []
    for number, message in enumerate(messages(story)):
        data = f"{message}\n".encode()
        who = f"{_WHO} {committed_s(story, number):.0f} +0000"
        head = f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {len(data)}\n"
        stream.append(head.encode() + data + b"\n")
    try:
        for command, given in (
            (("init", "-q", "-b", "main"), b""),
            (("fast-import", "--quiet"), b"".join(stream)),
        ):
            run_git(folder, *command, given=given)
    except GitError as error:
        raise UsageError(f"git cannot make a repository in {folder} ({error})") from error
    (folder / "asv.conf.json").write_text(json.dumps(_ASV, indent=4) + "\n")
