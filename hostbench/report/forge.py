"""The page of a commit on its forge, by what the user has configured. Each address is built here:
of plain signs, over https, without credentials; what is not like that is no link."""

import re
from pathlib import Path

from hostbench.core import asv_config
from hostbench.core.errors import HostbenchError
from hostbench.vcs.repo import git

_PAGES = {
    "github": "commit",
    "gitlab": "-/commit",
    "bitbucket": "commits",
    "codeberg": "commit",
    "gitea": "commit",
    "forgejo": "commit",
}
"""A word of the host's name -> what stands before a hash there."""
_PREFIX = re.compile(r"https://[\w.-]+(?::\d+)?/[\w./~%?=&;+-]*", re.ASCII)
_REPOSITORY = r"(?P<path>[\w.~-]+(?:/[\w.~-]+?)+?)(?:\.git)?/?"
_HTTPS = re.compile(
    rf"https://(?:[^/@\s\\]*@)?(?P<host>[\w.-]+(?::\d+)?)/{_REPOSITORY}", re.ASCII | re.IGNORECASE
)
_SSH = re.compile(
    rf"(?:ssh://(?:[\w.-]+@)?(?P<host>[\w.-]+)(?::\d+)?/|[\w.-]+@(?P<name>[\w.-]+):/?){_REPOSITORY}",
    re.ASCII | re.IGNORECASE,
)
_HASH = re.compile("[0-9a-f]{7,64}")


def commit_prefix(results: Path | None, here: Path) -> str | None:
    """What stands before a hash in the address of a commit's page: `show_commit_url` of the
    asv.conf.json over the results, else over `here`; without one, what its `repo` or git's `origin`
    says. None where nobody says, and for a forge that is not known."""
    root = asv_config.project_root(results.resolve()) if results else None
    root = root or asv_config.project_root(here) or here
    try:
        said = asv_config.read(root)
    except HostbenchError:
        return None
    shown = said.get("show_commit_url")
    if isinstance(shown, str) and _PREFIX.fullmatch(shown):
        return shown
    repo = said.get("repo")
    return (of_remote(repo) if isinstance(repo, str) else None) or of_remote(_origin(root))


def of_remote(remote: str) -> str | None:
    """The same by the address of a git remote: https, ssh, or git@host:path."""
    found = _HTTPS.fullmatch(remote) or _SSH.fullmatch(remote)
    if found is None:
        return None
    named = found.groupdict()
    host = (named.get("host") or named["name"]).lower()
    page = next((_PAGES[word] for word in re.split(r"[.:]", host) if word in _PAGES), None)
    return f"https://{host}/{named['path']}/{page}/" if page else None


def commit_page(prefix: str | None, commit: object) -> str | None:
    """None where there is no prefix, and for what is no hash."""
    is_hash = isinstance(commit, str) and _HASH.fullmatch(commit)
    return f"{prefix}{commit}" if prefix and is_hash else None


def _origin(root: Path) -> str:
    try:
        return git(asv_config.source_folder(root), "remote", "get-url", "origin")
    except (HostbenchError, OSError):
        return ""
