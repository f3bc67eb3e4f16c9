"""Ranks over many hosts: each process that torchrun, srun or mpirun starts is one rank's agent.

An agent joins the launcher's store, and for each group of ranks forks a fresh child, which meets
the others there; so it must not have run any torch operation. Rank 0 conducts: what a pool has in
pipes is a row of messages in the store, that every agent carries out, and a box of replies to each.
"""

import contextlib
import os
import pickle
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Self

import torch.distributed as dist

from hostbench.core.errors import BrokenError, DeviceLost, Unavailable, UsageError
from hostbench.ranks.blame import RankState, Reply, answers
from hostbench.ranks.group import Counters, GroupConfig, RankConfig
from hostbench.ranks.pool import GRACE_S, Child, Deadline, end

_dist: Any = dist  # torch leaves some of these without types
VARIABLE = "HOSTBENCH_AGENTS"
"""Set for the workers of rank 0: their ranks are the agents' children, and not their own."""
JOIN_S = 300.0  # for the ranks to start: importing torch from a shared disk takes minutes
SILENT_S = 3600.0  # without a message: an agent takes rank 0 for dead
LEAVE_S = 2.0  # for the agents to read the last message, while rank 0 keeps the store
LATE_S = 30.0  # the same where nothing was measured: some may only start
STATES_SHARE = 0.15  # of an order's time: for the agents to say how far their ranks are
LOOK_SHARE = 0.01  # of a case's deadline: an agent whose rank is busy looks for a message so often
SIGNAL_S = 0.5  # Python answers no signal while torch waits for the store
LOST_S = 1.0  # for a rank whose pipe is closed to end: longer is told as it is
_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"),
)
"""Rank, number of ranks, rank on this host and, where there is one, number of the host."""


@dataclass(frozen=True, slots=True)
class Member:
    """What the launcher says to one of the processes that it starts."""

    rank: int
    num_ranks: int
    local_rank: int
    host: str
    node: str  # differs between hosts, also where two have one name

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Raises UsageError where a variable lacks."""
        names = next((names for names in _VARIABLES if {*names[:3]} <= {*environ}), None)
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
        rank, num_ranks, local_rank = (int(environ[name]) for name in names[:3])
        host = socket.gethostname()
        return cls(rank, num_ranks, local_rank, host, f"{host} {environ.get(names[3], '')}")

    @property
    def name(self) -> str:
        return f"rank {self.rank} on {self.host}"

    def connect(self, group: str = "all", *, conducts: bool = False) -> Any:
        """This run's part of the store, for a group of its own. Who conducts serves it where the
        launcher does not, as torchrun does. Raises BrokenError."""
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        serves = conducts and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        patience = timedelta(seconds=JOIN_S)
        try:
            store = _dist.TCPStore(address, port, None, serves, patience, wait_for_workers=False)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise BrokenError(
                f"{self.name}: no store at MASTER_ADDR:MASTER_PORT = {address}:{port} "
                f"({reason}); name rank 0's host, as the others reach it, and a free port"
            ) from error
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)  # torchrun may start all anew
        return _dist.PrefixStore(f"hostbench/{restart}/{group}", store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a rank says of itself before anything is timed."""

    member: Member
    alike: Mapping[str, object] = field(default_factory=dict)  # what every host has to have
    machine: str = ""  # its host's name as a machine, of the first rank on each; and its facts
    facts: Mapping[str, Any] | None = None
    wrong: str = ""  # why it cannot take part


class Mail:
    """Objects in the launcher's store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, key: str, value: object) -> None:
        self._store.set(key, pickle.dumps(value))

    def get(self, key: str, seconds: float) -> Any:
        """Raises TimeoutError where it does not come."""
        until = time.monotonic() + seconds
        while True:
            left_s = min(SIGNAL_S, max(0.001, until - time.monotonic()))
            with contextlib.suppress(dist.DistStoreError):
                self._store.wait([key], timedelta(seconds=left_s))
                return pickle.loads(self._store.get(key))
            if time.monotonic() >= until:
                raise TimeoutError(f"no {key} within {seconds:g} s")

    def has(self, key: str) -> bool:
        return bool(self._store.check([key]))

    def post(self, *message: object) -> int:
        """The next message to every agent; its number. Only rank 0 posts."""
        number = int(self._store.add("posted", 0)) + 1
        self.put(f"message/{number}", message)
        self._store.add("posted", 1)
        return number

    def drop(self, box: str, value: object) -> None:
        """Into a box, beside what others drop there."""
        self.put(f"{box}/{self._store.add(f'{box}/count', 1)}", value)

    def take(self, box: str, num: int, until: Callable[[], float]) -> Iterator[Any]:
        """`num` values from a box as they come, fewer where the moment comes first."""
        with contextlib.suppress(TimeoutError):
            for slot in range(1, num + 1):
                yield self.get(f"{box}/{slot}", until() - time.monotonic())
                self._store.delete_key(f"{box}/{slot}")


class Agents:
    """The ranks of a group over many hosts, ordered as a Pool's."""

    def __init__(self, group: GroupConfig) -> None:
        """Raises Unavailable for another number than the launcher has started."""
        self._mail = Mail(Member.from_environ().connect())
        world: list[Member] = self._mail.get("world", JOIN_S)
        if group.num_ranks != len(world):
            raise Unavailable(f"needs {group.num_ranks} ranks, the launcher started {len(world)}")
        self._names = [member.name for member in world]
        self._mail.post("fork", group, Counter(member.node for member in world))

    def ask(self, deadline: Deadline, order: str, *arguments: Any) -> list[Any]:
        """As a Pool's. Raises DeviceLost as well, where an agent is gone."""
        number = self._mail.post("order", order, arguments)
        replies: dict[int, Reply] = {}
        late = [deadline.at]
        box = self._mail.take(f"reply/{number}", len(self._names), lambda: min(late))
        for rank, reply in box:
            replies[rank] = reply
            if reply.kind != "done":
                late.append(time.monotonic() + LOST_S + GRACE_S)
        return answers(replies, lambda _: self._states(deadline), deadline.given_s, self._names)

    def close(self) -> None:
        self._mail.post("end")

    def _states(self, deadline: Deadline) -> list[RankState]:
        until = deadline.at + STATES_SHARE * deadline.given_s
        box = f"reply/{self._mail.post('tell')}"
        states: dict[int, RankState] = dict(self._mail.take(box, len(self._names), lambda: until))
        if gone := [name for rank, name in enumerate(self._names) if rank not in states]:
            raise DeviceLost(f"no agent answers for {', '.join(gone)}: it or its host is gone")
        return [state for _, state in sorted(states.items())]


def serve(member: Member, hello: Callable[[], Hello]) -> None:
    """The whole life of an agent. Raises BrokenError where rank 0 or its store is gone."""
    for number in (signal.SIGTERM, signal.SIGINT):  # at once: nothing here is to be kept
        signal.signal(number, signal.SIG_DFL)
    mail = Mail(member.connect())
    mail.drop("hello", hello())
    try:
        _carry_out(member, mail)
        mail.drop("left", member.rank)
    except (TimeoutError, dist.DistNetworkError) as error:
        reason = str(error).partition("\n")[0]
        raise BrokenError(f"{member.name}: rank 0 is gone ({reason})") from error


def _carry_out(member: Member, mail: Mail) -> None:
    """The messages until the last, and meanwhile hand on what the rank says or how it ended."""
    child: Child | None = None
    busy = 0  # the number of the order that the rank has in hand
    for number in count(1):
        while child and busy:
            if child.channel.poll(LOOK_SHARE * child.config.group.deadline_s):
                reply = child.receive(time.monotonic() + LOST_S)
                mail.drop(f"reply/{busy}", (member.rank, reply))
                busy = 0
            elif mail.has(f"message/{number}"):
                break
        kind, *what = mail.get(f"message/{number}", SILENT_S)
        if child and kind == "order":
            child.order(*what)
            busy = number
        elif child and kind == "tell":
            mail.drop(f"reply/{number}", (member.rank, child.state(is_silent=bool(busy))))
        else:  # also before another fork: the worker that conducted may have been killed
            if child and busy:
                child.kill()  # it would not leave by the end of its pipe
            end([child] if child else [])
            child, busy = None, 0
        if kind == "fork":
            group, num_local = what
            store = partial(member.connect, f"group/{number}")
            counters, here = Counters(group.num_ranks), (member.local_rank, num_local[member.node])
            child = Child(RankConfig(group, member.rank, store, counters, *here))
        elif kind == "bye":
            return


def dismiss(mail: Mail, num_ranks: int, was_measured: bool) -> None:
    """Let the agents end while their store is there, also where they had nothing to do."""
    until = time.monotonic() + (LEAVE_S if was_measured else LATE_S)
    mail.post("bye")
    list(mail.take("left", num_ranks, lambda: until))


def agreed(mail: Mail, num_ranks: int) -> list[Hello]:
    """What every rank says, by rank. Raises UsageError, which names who differs from rank 0, and
    BrokenError, which names who is missing."""
    until = time.monotonic() + JOIN_S
    started = {hello.member.rank: hello for hello in mail.take("hello", num_ranks, lambda: until)}
    if missing := [str(rank) for rank in range(num_ranks) if rank not in started]:
        raise BrokenError(
            f"of {num_ranks} ranks these did not start within {JOIN_S:g} s, or have another's "
            f"number: {', '.join(missing)}"
        )
    hellos: list[Hello] = [started[rank] for rank in range(num_ranks)]
    first = hellos[0]
    for hello in hellos:
        if hello.wrong:
            raise UsageError(f"{hello.member.name}: {hello.wrong}")
        for what in {**first.alike, **hello.alike}:
            value, usual = (of.alike.get(what, "none") for of in (hello, first))
            if value != usual:
                raise UsageError(
                    f"{hello.member.name} has {what}: {value}, {first.member.name} {usual}: every "
                    "host needs the same"
                )
    return hellos
