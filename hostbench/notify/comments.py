"""The comment on a pull request of GitHub, or a merge request of GitLab: one, updated in place."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from hostbench.core.errors import BrokenError, NothingMeasured, UsageError
from hostbench.core.files import read_stored
from hostbench.core.units import MIB
from hostbench.notify.http import MOST_READ, Place, RefusedError, checked_url, exchange

GITHUB_TOKEN, GITLAB_TOKEN = "GITHUB_TOKEN", "GITLAB_TOKEN"
_MOST_PAGES = 200
_PAGE = 25
"""Comments: even the longest, of 65,536 characters, fit into one answer."""
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Where comments of one pull request are listed and made."""

    place: Place
    own: Callable[[Any], bool]
    """Whether a comment is ours: nobody else's is written over."""
    comments: str
    """Its path; a comment's own is `comment` and the id."""
    comment: str
    update: str
    """The method that changes one."""
    name: str


def post(thread: Thread, marker: str, text: str) -> str:
    """`updated` or `made`. Raises BrokenError."""
    for one in _pages(thread.place, thread.comments):
        if thread.own(one) and str(one.get("body", "")).startswith(marker):
            path = f"{thread.comment}/{_known(one, 'id')}"
            exchange(thread.place, thread.update, path, {"body": text})
            return "updated"
    exchange(thread.place, "POST", thread.comments, {"body": text})
    return "made"


def threads(environ: Mapping[str, str], pull: int | None) -> list[Thread]:
    """Those that the environment of a CI job tells of. Raises UsageError where it does not."""
    if environ.get("CI_API_V4_URL"):
        return [_gitlab(environ, pull)]
    if environ.get("GITHUB_REPOSITORY"):
        return _github(environ, pull)
    raise UsageError(
        "there is nothing to comment on: set GITHUB_REPOSITORY (owner/name) and GITHUB_TOKEN, or "
        "CI_API_V4_URL, CI_PROJECT_ID and GITLAB_TOKEN, and name the request with --pull"
    )


def _github(environ: Mapping[str, str], pull: int | None) -> list[Thread]:
    repository = environ["GITHUB_REPOSITORY"]
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(f"GITHUB_REPOSITORY is {repository!r:.80}; write it as owner/name")
    place = Place(
        name="GitHub",
        url=_api(environ.get("GITHUB_API_URL") or "https://api.github.com", "GITHUB_API_URL"),
        headers={
            "Authorization": f"Bearer {_token(environ, GITHUB_TOKEN)}",
            "Accept": "application/vnd.github+json",
        },
    )
    start = f"/repos/{repository}"
    numbers = [pull] if pull is not None else _of_event(place, start, _event(environ))
    login = _login(place)
    return [
        Thread(
            place=place,
            own=lambda one: (one.get("user") or {}).get("login") == login,
            comments=f"{start}/issues/{number}/comments",
            comment=f"{start}/issues/comments",
            update="PATCH",
            name=f"{repository}#{number}",
        )
        for number in numbers
    ]


def _login(place: Place) -> str:
    """Whose token it is; a workflow's may not ask."""
    try:
        return str(_known(exchange(place, "GET", "/user"), "login"))
    except RefusedError as error:
        if error.status not in (403, 404):
            raise
        return "github-actions[bot]"


def _event(environ: Mapping[str, str]) -> Any:
    """What GitHub says has happened."""
    try:
        found = json.loads(read_stored(Path(environ["GITHUB_EVENT_PATH"])))
    except (KeyError, OSError, ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _of_event(place: Place, start: str, event: Any) -> list[int]:
    """The pull request of a workflow, or of the workflow that has ended. GitHub names none for one
    that came from a fork, so it is asked which open ones have just that commit of that branch."""
    if isinstance(event.get("pull_request"), dict):
        return [_number(event["pull_request"])]
    ended = event.get("workflow_run")
    try:
        owner = ended["head_repository"]["owner"]["login"]
        sha, head = ended["head_sha"], f"{owner}:{ended['head_branch']}"
    except (KeyError, TypeError):
        raise UsageError("GitHub tells of no pull request here: name it with --pull") from None
    listed = exchange(place, "GET", f"{start}/pulls?{urlencode({'state': 'open', 'head': head})}")
    every = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    numbers = [_number(one) for one in every if (one.get("head") or {}).get("sha") == sha]
    if not numbers:
        raise NothingMeasured("no open pull request ends with the commit that was measured")
    return numbers


def _gitlab(environ: Mapping[str, str], pull: int | None) -> Thread:
    place = Place(
        name="GitLab",
        url=_api(environ["CI_API_V4_URL"], "CI_API_V4_URL"),
        headers={"PRIVATE-TOKEN": _token(environ, GITLAB_TOKEN)},
    )
    project = environ.get("CI_MERGE_REQUEST_PROJECT_ID") or environ.get("CI_PROJECT_ID") or ""
    number = str(pull) if pull is not None else environ.get("CI_MERGE_REQUEST_IID", "")
    if not project or not number.isdecimal():
        raise UsageError(
            "GitLab tells of no merge request here (CI_PROJECT_ID, CI_MERGE_REQUEST_IID): name it "
            "with --pull"
        )
    own = _known(exchange(place, "GET", "/user"), "id")
    notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"
    return Thread(
        place=place,
        own=lambda one: (one.get("author") or {}).get("id") == own,
        comments=notes,
        comment=notes,
        update="PUT",
        name=f"merge request !{number}",
    )


def _api(url: str, source: str) -> str:
    """What paths are put behind. Raises UsageError."""
    return checked_url(url, source).rstrip("/")


def _token(environ: Mapping[str, str], name: str) -> str:
    """Raises UsageError, which does not show it."""
    token = environ.get(name, "")
    if not token:
        raise UsageError(f"{name} is not set: a token that may comment")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(f"{name} is no token: it holds a space or a line's end")
    return token


def _pages(place: Place, path: str) -> Iterator[Any]:
    """Every comment, the oldest first."""
    for page in range(1, _MOST_PAGES + 1):
        found = exchange(place, "GET", f"{path}?{urlencode({'per_page': _PAGE, 'page': page})}")
        if not isinstance(found, list):
            most = f"{MOST_READ // MIB} MiB"
            raise BrokenError(
                f"{place.name} answers with no list of comments, or with more than {most}"
            )
        yield from (one for one in found if isinstance(one, dict))
        if len(found) < _PAGE:
            return


def _number(pull: Any) -> int:
    return int(_known(pull, "number"))


def _known(answer: Any, key: str) -> Any:
    if not isinstance(answer, dict) or key not in answer:
        raise BrokenError(f"the answer has no {key!r}")
    return answer[key]
