"""A branch of a remote: its files read, commits added to it, and the checkout stays as it is.

That needs a bare repository of our own, below the checkout's git folder: the checkout's index,
branches, refs and configuration are not touched. What the files mean others know.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from hostbench.core.errors import BrokenError, HostbenchError, UsageError
from hostbench.core.units import MIB, one_line
from hostbench.vcs.repo import GitError, git, run_git, without_credentials

TOKEN = "HOSTBENCH_GIT_TOKEN"
"""The variable whose value is the password of the remote, over https."""
TIMEOUT_S = 300.0
"""For one exchange with the remote."""
_AT_ONCE = 32 * MIB
"""Bytes of files that are read from the branch at once."""
_FOR_REMOTES = re.compile(
    r"(remote|url|credential|http|protocol|ssh)\..*|core\.(sshcommand|gitproxy)", re.DOTALL
)
"""What of the checkout's own configuration speaks of remotes."""
_MOVED = re.compile(
    r"\[rejected\]|cannot lock ref|failed to update ref|reference already exists"
    r"|incorrect old value|Unable to create .*\.lock"
)
"""How git says that another push was faster."""
_NEVER = "exists; cannot create"
"""How it says that a branch cannot be: `results` beside `results/old`."""
_SAID = 3
"""Lines of the remote's that are shown."""
_LOCKED_OUT = re.compile(
    "could not read (Username|Password)|Authentication failed|returned error: 403"
)
"""How it says that the host wants another password, or one at all."""
_HELPER = (
    "!f() { test \"$1\" = get && printf 'username=x-access-token\\npassword=%s\\n' "
    f'"${TOKEN}"; }}; f'
)
_DAMAGED = re.compile(
    "not a git repository|is empty|corrupt|broken|bad object|missing|unable to read"
)
"""How it says that it cannot read what it has."""
_SHA1 = 40
"""Letters of a name in a repository that has not sha256."""
_LOCAL_NAMES = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A file of the branch."""

    sha: str
    size: int
    is_regular: bool

    def holds(self, content: bytes) -> bool:
        """Whether it is these bytes, by the name that git gives to them."""
        kind = "sha1" if len(self.sha) == _SHA1 else "sha256"
        named = hashlib.new(kind, b"blob %d\0" % len(content), usedforsecurity=False)
        named.update(content)
        return named.hexdigest() == self.sha


def split_name(root: Path, name: str) -> tuple[str, str]:
    """`origin/results` as the remote's name and the branch's. Raises UsageError."""
    remotes = git(root, "remote").split("\n")
    found = [one for one in remotes if one and name.startswith(f"{one}/")]
    if not found:
        raise UsageError(
            f"{without_credentials(name)!r} is no REMOTE/BRANCH of a remote that git knows here "
            f"({', '.join(filter(None, remotes)) or 'it knows none'}): write it as origin/results"
        )
    remote = max(found, key=len)
    return remote, name.removeprefix(f"{remote}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBranch:
    """A branch of a remote, and the repository of our own that knows it."""

    root: Path
    remote: str
    branch: str
    key: str
    """Where the refs of this folder and branch lie in our repository."""
    environ: Mapping[str, str] = field(repr=False)

    def run(self, *command: str, given: bytes = b"") -> bytes:
        return run_git(self.root, *command, given=given, environ=self.environ, timeout_s=TIMEOUT_S)

    def fetch(self) -> str | None:
        """The branch's newest commit, and all of it here; None where there is no such branch."""
        name = f"refs/heads/{self.branch}"
        with self._said("cannot be read"):
            lines = self.run("ls-remote", self.remote, name).decode().splitlines()
            tip = next(
                (line[: -len(name) - 1] for line in lines if line.endswith(f"\t{name}")), None
            )
            here = f"refs/hostbench/{self.key}/tip"
            if tip is not None and tip != self._known(here):
                usual = ("--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head")
                # no filter: in a partial clone git would ask for each file by itself
                more = ("--no-filter", "--no-recurse-submodules", "--end-of-options")
                self.run("fetch", *usual, *more, self.remote, f"+{name}:{here}")
                tip = self._known(here)  # it may have moved
            return tip

    def _known(self, ref: str) -> str | None:
        try:
            return self.run("rev-parse", "--verify", "--quiet", ref).decode().strip()
        except GitError:
            return None

    def tree(self, commit: str) -> dict[str, Blob]:
        """Every file of a commit; a name that is no UTF-8 in escapes, which no result's has."""
        found = {}
        for entry in self.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit).split(b"\0"):
            about, tab, name = entry.partition(b"\t")
            if tab:
                mode, _, sha, size = about.split()
                found[name.decode(errors="backslashreplace")] = Blob(
                    sha=sha.decode(),
                    size=int(size) if size.isdigit() else 0,
                    is_regular=mode in (b"100644", b"100755"),
                )
        return found

    def contents(self, wanted: Mapping[str, Blob]) -> Iterator[tuple[str, bytes]]:
        """The files, a part at a time."""
        part: list[str] = []
        size = 0
        for name, one in wanted.items():
            part.append(name)
            size += one.size
            if size > _AT_ONCE:
                yield from self._read(part, wanted)
                part, size = [], 0
        yield from self._read(part, wanted)

    def _read(
        self, names: Sequence[str], wanted: Mapping[str, Blob]
    ) -> Iterator[tuple[str, bytes]]:
        asked = "".join(f"{wanted[name].sha}\n" for name in names).encode()
        packed, place = self.run("cat-file", "--batch", given=asked) if names else b"", 0
        for name in names:
            sha, size = wanted[name].sha, wanted[name].size
            start = place + len(f"{sha} blob {size}\n")
            if packed[place:start] != f"{sha} blob {size}\n".encode():
                raise BrokenError(f"git does not tell {name} of {self.remote}/{self.branch}")
            place = start + size + 1  # behind it a line ends
            yield name, packed[start : place - 1]

    def base(self, name: str) -> bytes | None:
        """The file as both sides had it when they were last the same."""
        try:
            return self.run("cat-file", "blob", f"refs/hostbench/{self.key}/same:{name}")
        except GitError:
            return None

    def commit(self, parent: str | None, files: Mapping[str, bytes], message: str) -> str:
        """A new commit with these files beside, or in place of, the parent's."""
        text, here = message.encode(errors="replace"), f"refs/hostbench/{self.key}/next"
        who = f"{self._identity()} {int(time.time())} +0000"
        parts = [
            f"commit {here}\nmark :1\ncommitter {who}\ndata {len(text)}\n".encode(),
            text,
            b"\n",
        ]
        parts += [f"from {parent}\n".encode()] if parent else []
        for name, content in files.items():
            parts += [
                f"M 100644 inline {_quoted(name)}\ndata {len(content)}\n".encode(),
                content,
                b"\n",
            ]
        parts.append(b"get-mark :1\n")
        done = self.run("fast-import", "--quiet", "--force", given=b"".join(parts))
        return done.decode().strip()

    def _identity(self) -> str:
        """git's own would tell the host's name where nobody has set one."""
        name, email = (self._setting(key) for key in ("name", "email"))
        return f"{name} <{email}>" if name and email else "hostbench <hostbench@localhost>"

    def _setting(self, key: str) -> str:
        try:
            said = os.environ.get(f"GIT_COMMITTER_{key.upper()}") or git(
                self.root, "config", f"user.{key}"
            )
        except GitError:
            return ""
        return re.sub(r"[<>\x00-\x1f]", "", said)

    def send(self, commit: str) -> str | None:
        """Push; what git says where the branch has moved meanwhile."""
        usual = ("--quiet", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
        refs = (self.remote, f"{commit}:refs/heads/{self.branch}")
        try:
            with self._said("cannot be pushed to"):
                self.run("push", *usual, "--end-of-options", *refs)
        except BrokenError as error:
            said = str(getattr(error.__cause__, "said", ""))
            if _MOVED.search(said) and _NEVER not in said:
                return _reason(said)
            raise
        return None

    def note(self, commit: str) -> None:
        """Both sides are the same now."""
        self.run("update-ref", f"refs/hostbench/{self.key}/same", commit)

    @contextlib.contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except GitError as error:
            why = _reason(error.said)
            if _LOCKED_OUT.search(error.said):
                why += f"; set {TOKEN} (https) to a token that may read and push here"
            text = f"{self.remote}/{self.branch} {what}: {why}; the results here are whole"
            raise BrokenError(text) from error


@contextlib.contextmanager
def opened(root: Path, results: Path, remote: str, branch: str) -> Iterator[RemoteBranch]:
    """Our repository, for one process at a time. Raises UsageError, and BrokenError where git
    cannot work in it, as on a full disk."""
    url = _url(root, remote, branch)
    asked = ("--show-object-format", "--git-common-dir", "--show-toplevel", "--local-env-vars")
    try:
        like, common, top, *outer = git(root, "rev-parse", *asked).split("\n")
    except GitError as error:
        why = f"{root} is no checkout ({error}): start this in one, as `git worktree add` makes it"
        raise UsageError(why) from error
    place = (root / common).resolve() / "hostbench" / "results.git"
    which = f"{results.resolve()}\0{remote}\0{branch}"
    there = RemoteBranch(
        root=Path(top),
        remote=remote,
        branch=branch,
        key=hashlib.sha256(os.fsencode(which)).hexdigest()[:16],
        environ=_environ(root, place, url, outer),
    )
    try:
        place.parent.mkdir(exist_ok=True)
        lock = (place.parent / "results.lock").open("w")
    except OSError as error:
        why = f"cannot write {place.parent}: {error.strerror}; make it writable"
        raise UsageError(why) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in place.rglob("*.lock"):  # a git that was killed; this lock is ours alone
            left.unlink(missing_ok=True)
        try:
            if not place.exists():
                _make(place, like, there.environ)
            yield there
        except HostbenchError as error:
            if _is_damaged(place, error):
                shutil.rmtree(place, ignore_errors=True)
                why = f"{error}; git's files in {place} were damaged and are deleted: try again"
                raise BrokenError(why) from error
            if isinstance(error, GitError):
                raise BrokenError(f"{error}; the results here are whole") from error
            raise


def _url(root: Path, remote: str, branch: str) -> str:
    """The remote's. Raises UsageError where there is none, or no such branch can be."""
    for name in (remote, branch):
        if name.startswith("-"):
            raise UsageError(f"{name!r} is an option, no name: write origin/results")
    try:
        git(root, "check-ref-format", f"refs/heads/{branch}")
    except GitError:
        raise UsageError(f"{branch!r} cannot name a branch: write origin/results") from None
    try:
        return git(root, "remote", "get-url", remote)
    except GitError as error:
        why = f"there is no remote {remote!r} ({error}): `git remote` lists them"
        raise UsageError(why) from error


def _make(place: Path, like: str, environ: Mapping[str, str]) -> None:
    """All of our repository or none of it."""
    new = place.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    usual = ("--quiet", "--bare", "--template=")
    more = {**environ, "GIT_DIR": str(new)}
    run_git(place.parent, "init", *usual, f"--object-format={like}", environ=more)
    new.rename(place)


def _is_damaged(place: Path, error: HostbenchError) -> bool:
    """Whether git cannot read what it has in our repository, as after a power cut."""
    cause = error if isinstance(error, GitError) else error.__cause__
    said = cause.said if isinstance(cause, GitError) else ""
    return bool(_DAMAGED.search(said)) and (str(place) in said or "refs/hostbench/" in said)


def _environ(root: Path, place: Path, url: str, outer: Sequence[str]) -> dict[str, str]:
    """In which git runs on our repository: with what the checkout says of remotes, without the
    variables of an outer git, and so that nobody is asked for anything."""
    kept = {name: value for name, value in os.environ.items() if name not in outer}
    settings = _settings(root)
    if kept.get(TOKEN):
        settings += _credential(url)
    for number, (name, value) in enumerate(settings):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    own_ssh = ("GIT_SSH_COMMAND", "GIT_SSH")
    if not any(map(kept.get, own_ssh)) and "core.sshcommand" not in dict(settings):
        kept["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes -oConnectTimeout=30"
    return {
        **kept,
        "GIT_DIR": str(place),
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
    }


def _settings(root: Path) -> list[tuple[str, str]]:
    """Those of the checkout and of the environment that speak of remotes, and a few of ours."""
    listed = os.fsdecode(run_git(root, "config", "--show-scope", "--includes", "--list", "-z"))
    parts = listed.split("\0")
    found = []
    for scope, line in zip(parts[::2], parts[1::2], strict=False):
        name, _, value = line.partition("\n")
        if scope in ("local", "worktree", "command") and _FOR_REMOTES.fullmatch(name):
            found.append((name, value))
    return [
        *found,
        ("core.hooksPath", os.devnull),
        ("http.lowSpeedLimit", "1"),
        ("http.lowSpeedTime", "30"),
        ("gc.autoDetach", "false"),
        ("maintenance.autoDetach", "false"),
    ]


def _credential(url: str) -> list[tuple[str, str]]:
    """The token for this host alone: git hands it on, and it is on no command line and no disk."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL_NAMES):
        return []
    host = parts.netloc.rpartition("@")[2]
    name = f"credential.{parts.scheme}://{host}.helper"
    own = [("http.followRedirects", "false"), (name, ""), (name, _HELPER)]
    if host != parts.netloc:  # else git would go by what the URL says
        start = f"{parts.scheme}://"
        own.append((f"url.{start}{host}/.insteadOf", f"{start}{parts.netloc}/"))
    return own


def _quoted(name: str) -> str:
    """As fast-import reads a path, whatever it begins with."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _reason(said: str) -> str:
    """The lines that say why: git names the remote first. A host that refuses says so itself."""
    lines = [one_line(line).strip() for line in said.splitlines()]
    theirs = [line for line in lines if line.startswith("remote:") and line != "remote:"][:_SAID]
    own = [line for line in lines if line.startswith(("fatal:", "error:", "!"))][:1]
    return " / ".join([*theirs, *own]) or one_line(said.partition("\n")[0])
