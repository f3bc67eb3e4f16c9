"""Ranks over many hosts: each process that torchrun, srun or mpirun starts is one rank's agent.

An agent runs no torch operation, for a forked child of a process that did may hang. It joins the
launcher's store, and for each group of ranks forks a fresh child, which meets the others there.
Rank 0 conducts: what a pool of one host has in pipes is a numbered row of messages in the store,
which every agent walks, and a box of replies for each, in the order in which they come.
"""

import os
import pickle
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Self

import torch.distributed as dist

from hostbench.core.errors import BrokenError, DeviceLost, Unavailable, UsageError
from hostbench.ranks import pool
from hostbench.ranks.blame import RankState, Reply, answers
from hostbench.ranks.group import Counters, Seat
from hostbench.ranks.pool import Child, Deadline, Pool

_dist: Any = dist  # torch leaves some of these without types
VARIABLE = "HOSTBENCH_AGENTS"
"""Set for the workers of rank 0: their ranks are the agents' children, and not their own."""
JOIN_S = 300.0
"""How long the ranks may take to start: importing torch from a shared disk takes minutes."""
SILENT_S = 3600.0
"""After so long without a message an agent takes rank 0 for dead."""
LEAVE_S = 2.0
"""How long rank 0 keeps the store for the agents to read the last message."""
LATE_S = 30.0
"""As long where nothing was measured, as some may only start."""
STATES_SHARE = 0.15
"""Of the time that an order had: so long the agents have to tell how far their ranks are."""
LOOK_SHARE = 0.01
"""Of a case's deadline: how often an agent whose rank is busy looks for a message."""
POLL_S = 0.05
LOST_S = 1.0
"""How long a rank whose pipe is closed may take to end: longer is told as it is."""
_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"),
)
"""Rank, number of ranks, rank on this host and, where there is one, number of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What the launcher says to one of the processes that it starts."""

    rank: int
    num_ranks: int
    local_rank: int
    host: str
    node: str
    """Differs between hosts, also where two have one name."""
    address: str
    port: int
    prefix: str
    """Of this run's keys in the store: a launcher that starts all anew has another."""
    has_store: bool
    """Whether the launcher serves one, as torchrun does; else rank 0 does."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Raises UsageError where a variable lacks or is no number."""
        names = next((names for names in _VARIABLES if {*names[:2]} <= {*environ}), None)
        if names is None:
            raise UsageError(
                "no launcher has started this: write torchrun --nnodes=N --nproc-per-node=G -m "
                "hostbench.ranks, or start it with srun or mpirun; one host needs only `hostbench "
                "run collectives`"
            )
        lacks = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(name)]
        if lacks:
            raise UsageError(
                f"{' and '.join(lacks)} not set: export MASTER_ADDR, rank 0's host, and "
                "MASTER_PORT, a free port there, to every process (torchrun does it itself)"
            )
        rank, num_ranks, local_rank, node = names
        host = socket.gethostname()
        return cls(
            rank=_number(environ, rank),
            num_ranks=_number(environ, num_ranks),
            local_rank=_number(environ, local_rank),
            host=host,
            node=f"{host} {environ.get(node, '')}",
            address=environ["MASTER_ADDR"],
            port=_number(environ, "MASTER_PORT"),
            prefix=f"hostbench/{environ.get('TORCHELASTIC_RESTART_COUNT', 0)}",
            has_store=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        )

    @property
    def name(self) -> str:
        return f"rank {self.rank} on {self.host}"

    def connect(self, serves: bool = False, prefix: str = "") -> Any:
        """The store, or the part of it below a prefix. Raises BrokenError where there is none."""
        patience = timedelta(seconds=JOIN_S)
        try:
            store = _dist.TCPStore(
                self.address, self.port, None, serves, patience, wait_for_workers=False
            )
        except RuntimeError as error:
            raise BrokenError(
                f"{self.name}: no store at MASTER_ADDR:MASTER_PORT = {self.address}:{self.port} "
                f"({_line(error)}); name rank 0's host, as the others reach it, and a free port"
            ) from error
        return _dist.PrefixStore("/".join(filter(None, (self.prefix, prefix))), store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a rank says of itself before anything is timed."""

    member: Member
    versions: Mapping[str, str]
    """Of what has to be the same on every host."""
    cases: tuple[str, ...] = ()
    machine: str = ""
    """Its host's name as a machine, and facts: of the first rank on each host."""
    facts: Mapping[str, Any] | None = None
    wrong: str = ""
    """Why it cannot take part."""


class Mail:
    """Objects in the launcher's store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, key: str, value: object) -> None:
        self._store.set(key, pickle.dumps(value))

    def get(self, key: str, seconds: float) -> Any:
        """Raises TimeoutError where it does not come."""
        try:
            self._store.wait([key], timedelta(seconds=max(0.001, seconds)))
        except dist.DistStoreError:
            raise TimeoutError(key) from None
        return pickle.loads(self._store.get(key))

    def has(self, key: str) -> bool:
        return bool(self._store.check([key]))

    def post(self, *message: object) -> int:
        """The next message to every agent; its number. Only rank 0 posts."""
        number = int(self._store.add("posted", 0)) + 1
        self.put(f"message/{number}", message)
        self._store.add("posted", 1)
        return number

    def count(self, box: str, more: int = 0) -> int:
        """How many are in a box, or were, after so many more."""
        return int(self._store.add(f"{box}/count", more))

    def wait_for(self, box: str, num: int, seconds: float) -> None:
        """Until so many are in a box or the time is over. A signal is answered meanwhile."""
        late = time.monotonic() + seconds
        while self.count(box) < num and time.monotonic() < late:
            time.sleep(POLL_S)

    def drop(self, box: str, value: object) -> None:
        """Into a box, beside what others drop there."""
        self.put(f"{box}/{self.count(box, 1)}", value)

    def take(self, box: str, num: int, left_s: Callable[[], float]) -> Iterator[Any]:
        """`num` values from a box as they come, fewer where no time is left."""
        for slot in range(1, num + 1):
            try:
                yield self.get(f"{box}/{slot}", left_s())
            except TimeoutError:
                return
            self._store.delete_key(f"{box}/{slot}")


class Agents:
    """The ranks of a group over many hosts, ordered as a Pool's."""

    def __init__(self, device: str, backend: str, num_ranks: int, deadline_s: float) -> None:
        """Raises Unavailable for another number than the launcher has started."""
        self._mail = Mail(Member.from_environ().connect())
        self._names = [member.name for member in self._mail.get("world", JOIN_S)]
        if num_ranks != len(self._names):
            raise Unavailable(f"has {num_ranks} ranks, the launcher started {len(self._names)}")
        self._mail.post("fork", device, backend, deadline_s)

    def ask(self, deadline: Deadline, order: str, *arguments: Any) -> list[Any]:
        """As a Pool's. Raises DeviceLost as well, where an agent is gone."""
        number = self._mail.post("order", order, arguments)
        replies: dict[int, Reply] = {}
        late = [deadline.at]
        for rank, reply in self._take(number, lambda: min(late) - time.monotonic()):
            replies[rank] = reply
            if reply.kind != "done":
                late.append(time.monotonic() + LOST_S + pool.GRACE_S)
        return answers(replies, lambda _: self._states(deadline), deadline.given_s, self._names)

    def close(self) -> None:
        self._mail.post("end")

    def _take(self, number: int, left_s: Callable[[], float]) -> Iterator[Any]:
        return self._mail.take(f"reply/{number}", len(self._names), left_s)

    def _states(self, deadline: Deadline) -> list[RankState]:
        late = deadline.at + STATES_SHARE * deadline.given_s
        number = self._mail.post("tell")
        states: dict[int, RankState] = dict(self._take(number, lambda: late - time.monotonic()))
        if gone := [name for rank, name in enumerate(self._names) if rank not in states]:
            raise DeviceLost(f"no agent answers for {', '.join(gone)}: it or its host is gone")
        return [state for _, state in sorted(states.items())]


def make() -> Callable[[str, str, int, float], Pool | Agents]:
    """Whose ranks this process's are."""
    return Agents if os.environ.get(VARIABLE) else Pool


class Agent:
    """One rank's process that the launcher started: it carries out messages until the last."""

    def __init__(self, member: Member, mail: Mail, world: Sequence[Member]) -> None:
        self._member, self._mail = member, mail
        self._num_local = sum(other.node == member.node for other in world)
        self._child: Child | None = None
        self._busy, self._look_s = 0, 0.0
        """Number of the order that its rank has in hand."""

    def serve(self) -> None:
        """Raises TimeoutError where rank 0 says nothing any more."""
        number, kind = 0, ""
        while kind != "bye":
            number += 1
            kind, *what = self._message(number)
            getattr(self, f"_{kind}")(number, *what)

    def _message(self, number: int) -> Any:
        """The next one, and meanwhile what the rank says."""
        key = f"message/{number}"
        while self._busy and not (self._hear() or self._mail.has(key)):
            pass
        return self._mail.get(key, SILENT_S)

    def _hear(self) -> bool:
        """Whether the rank has said something or ended."""
        assert self._child is not None
        if not self._child.channel.poll(self._look_s):
            return False
        reply = self._child.receive(time.monotonic() + LOST_S)
        self._mail.drop(f"reply/{self._busy}", (self._member.rank, reply))
        self._busy = 0
        return True

    def _fork(self, number: int, device: str, backend: str, deadline_s: float) -> None:
        self._end(number)  # the worker that conducted them may have been killed
        member = self._member
        seat = Seat(
            rank=member.rank,
            num_ranks=member.num_ranks,
            local_rank=member.local_rank,
            num_local=self._num_local,
            device=device,
            backend=backend,
            store=partial(member.connect, prefix=f"group/{number}"),
            counters=Counters(member.num_ranks),
            deadline_s=deadline_s,
        )
        self._child, self._look_s = Child(seat), LOOK_SHARE * deadline_s

    def _order(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        assert self._child is not None
        self._child.order(name, arguments)
        self._busy = number

    def _tell(self, number: int) -> None:
        assert self._child is not None
        state = self._child.state(is_silent=bool(self._busy))
        self._mail.drop(f"reply/{number}", (self._member.rank, state))

    def _end(self, number: int) -> None:
        if self._child is not None:
            if self._busy:
                self._child.kill()  # it would not leave by the end of its pipe
            pool.end([self._child])
        self._child, self._busy = None, 0

    _bye = _end


def serve(member: Member, hello: Callable[[], Hello]) -> None:
    """The whole life of an agent. Raises BrokenError where rank 0 or its store is gone."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a handler would wait for the store's answer
        signal.signal(number, signal.SIG_DFL)
    mail = Mail(member.connect())
    mail.drop("hello", hello())
    try:
        world = mail.get("world", JOIN_S + SILENT_S)
        if world:
            Agent(member, mail, world).serve()
        mail.count("left", 1)
    except (TimeoutError, dist.DistNetworkError) as error:
        raise BrokenError(f"{member.name}: rank 0 is gone ({_line(error)})") from error


def dismiss(mail: Mail, num_ranks: int, was_measured: bool) -> None:
    """Let the agents end while their store is there, also where they had nothing to do."""
    if was_measured:
        mail.post("bye")
    else:
        mail.put("world", None)
    mail.wait_for("left", num_ranks, LEAVE_S if was_measured else LATE_S)


def agreed(mail: Mail, num_ranks: int) -> list[Hello]:
    """What every rank says, by rank. Raises UsageError, which names who differs from rank 0, and
    BrokenError, which names who is missing."""
    mail.wait_for("hello", num_ranks, JOIN_S)
    found: list[Hello] = list(mail.take("hello", mail.count("hello"), lambda: LEAVE_S))
    numbers = Counter(hello.member.rank for hello in found)
    if twice := [hello.member.name for hello in found if numbers[hello.member.rank] > 1]:
        raise UsageError(f"{' and '.join(twice)} are one number: start them with one launcher")
    if missing := [str(rank) for rank in range(num_ranks) if rank not in numbers]:
        raise BrokenError(
            f"of {num_ranks} ranks these did not start within {JOIN_S:g} s: {', '.join(missing)}"
        )
    hellos = sorted(found, key=lambda hello: hello.member.rank)
    if wrong := [f"{hello.member.name}: {hello.wrong}" for hello in hellos if hello.wrong]:
        raise UsageError(wrong[0])
    first = hellos[0]
    for hello in hellos:
        for what, value, usual in _pairs(hello, first):
            if value != usual:
                raise UsageError(
                    f"{hello.member.name} has {what} {value}, {first.member.name} {usual}: every "
                    "host needs the same"
                )
    return hellos


def _pairs(hello: Hello, first: Hello) -> Iterator[tuple[str, object, object]]:
    """What two ranks have to have alike: its name, and what each of them has."""
    yield "a world of", f"{hello.member.num_ranks} ranks", f"{first.member.num_ranks} ranks"
    for name, version in first.versions.items():
        yield name, hello.versions.get(name, "none"), version
    more, fewer = ({*hello.cases} - {*first.cases}, {*first.cases} - {*hello.cases})
    yield "the case", min(more, default="(none)"), min(fewer, default="(none)")


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not text.isdigit():
        raise UsageError(f"{name} is {text!r}: a launcher sets it to a whole number")
    return int(text)


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
