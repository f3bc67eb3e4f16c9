"""Ranks over many hosts: each process that torchrun, srun or mpirun starts is one rank's agent. It
forks a fresh child for each group of ranks, so it must not have run any torch operation. Rank 0
conducts: it puts messages into the launcher's store, and every agent its replies.
"""

import contextlib
import os
import pickle
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import torch.distributed as dist

from hostbench.core.errors import BrokenError, DeviceLost, Unavailable
from hostbench.ranks.blame import RankState, Reply, answers
from hostbench.ranks.pool import GRACE_S, Child, end
from hostbench.ranks.rank import GroupConfig, RankConfig
from hostbench.ranks.world import Hello, Member

_dist: Any = dist  # torch leaves some of these without types
VARIABLE = "HOSTBENCH_AGENTS"  # set for the workers of rank 0: their ranks are the agents' children
JOIN_S = 300.0  # for the ranks to start: importing torch from a shared disk takes minutes
SILENT_S = 3600.0  # without a message: an agent takes rank 0 for dead
LEAVE_S = 10.0  # for the agents to read the last message, while rank 0 keeps the store
STATES_SHARE = 0.12  # of a case's deadline: for the agents to say how far their ranks are
LOOK_SHARE = 0.01  # of a case's deadline: an agent whose rank is busy looks for a message so often
SIGNAL_S = 0.05  # while the ranks start or leave, rank 0 answers Ctrl-C so soon
LOST_S = 1.0  # for a rank whose pipe is closed to end


def connect(member: Member, group: str = "all", *, conducts: bool = False) -> Any:
    """This run's part of the launcher's store, for a group of its own. Who conducts serves it,
    unless torchrun does. Raises BrokenError."""
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    serves = conducts and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    patience = timedelta(seconds=JOIN_S)
    try:
        store = _dist.TCPStore(address, int(port), None, serves, patience, wait_for_workers=False)
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise BrokenError(
            f"{member.name}: no store at MASTER_ADDR:MASTER_PORT = {address}:{port} "
            f"({reason}); name rank 0's host, as the others reach it, and a free port"
        ) from error
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)  # torchrun may start all anew
    return _dist.PrefixStore(f"hostbench/{restart}/{group}", store)


class Mail:
    """Objects in the launcher's store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, key: str, value: object) -> None:
        self._store.set(key, pickle.dumps(value))

    def get(self, key: str, seconds: float) -> Any:
        """Raises DistStoreError where it does not come. Until then Python answers no signal."""
        self._store.wait([key], timedelta(seconds=max(0.001, seconds)))
        return pickle.loads(self._store.get(key))  # noqa: S301 - what its own ranks have put

    def has(self, *keys: str) -> bool:
        return bool(self._store.check(list(keys)))

    def drop(self, box: str, value: object) -> int:
        """Into the next slot of a box; the slot's number. All agents read the box `message`."""
        slot = int(self._store.add(f"{box}/count", 1))
        self.put(f"{box}/{slot}", value)
        return slot

    def take(self, box: str, num: int, until: Callable[[], float]) -> Iterator[Any]:
        """`num` values from a box as they come, fewer where the moment comes first."""
        with contextlib.suppress(dist.DistStoreError):
            for slot in range(1, num + 1):
                yield self.get(f"{box}/{slot}", until() - time.monotonic())
                self._store.delete_key(f"{box}/{slot}")

    def gather(self, box: str, num: int, seconds: float) -> list[Any]:
        """As `take`, and meanwhile Python answers signals: for rank 0 while nothing is timed."""
        slots, until = [f"{box}/{slot}" for slot in range(1, num + 1)], time.monotonic() + seconds
        while not self.has(*slots) and time.monotonic() < until:
            time.sleep(SIGNAL_S)
        return [self.get(slot, LOST_S) for slot in slots if self.has(slot)]


class Agents:
    """The ranks of a group over many hosts, ordered as a Pool's."""

    def __init__(self, group: GroupConfig) -> None:
        """Raises Unavailable for another number than the launcher has started."""
        self._group, self._mail = group, Mail(connect(Member.from_environ()))
        world: list[Member] = self._mail.get("world", JOIN_S)
        if group.num_ranks != len(world):
            raise Unavailable(f"for another number of ranks; the launcher started {len(world)}")
        self.names = [member.name for member in world]
        self._mail.drop("message", ("fork", group, Counter(member.node for member in world)))

    def ask(self, until: float, order: str, *arguments: Any) -> list[Any]:
        """As a Pool's. Raises DeviceLost as well, where an agent or the store is gone."""
        replies: dict[int, Reply] = {}
        late = [until]
        try:
            number = self._mail.drop("message", ("order", order, arguments))
            box, num = f"reply/{number}", len(self.names)
            for rank, reply in self._mail.take(box, num, lambda: min(late)):
                replies[rank] = reply
                if reply.kind != "done":
                    late.append(time.monotonic() + LOST_S + GRACE_S)
            patience_s = self._group.patience_s
            return answers(replies, lambda _: self._states(until), patience_s, self.names)
        except dist.DistNetworkError as error:
            reason = str(error).partition("\n")[0]
            raise DeviceLost(
                f"the launcher's store is gone, with it the ranks: {reason}"
            ) from error

    def close(self) -> None:
        with contextlib.suppress(dist.DistNetworkError):  # the store is gone, and the agents end
            self._mail.drop("message", ("end",))

    def _states(self, until: float) -> list[RankState]:
        until += STATES_SHARE * self._group.deadline_s
        box = f"reply/{self._mail.drop('message', ('state',))}"
        states: dict[int, RankState] = dict(self._mail.take(box, len(self.names), lambda: until))
        if gone := [name for rank, name in enumerate(self.names) if rank not in states]:
            raise DeviceLost(f"no agent answers for {', '.join(gone)}: it or its host is gone")
        return [state for _, state in sorted(states.items())]


def serve(member: Member, hello: Callable[[], Hello]) -> None:
    """The whole life of an agent. Raises BrokenError where rank 0 or its store is gone."""
    for number in (signal.SIGTERM, signal.SIGINT):  # at once: nothing here is to be kept
        signal.signal(number, signal.SIG_DFL)
    mail = Mail(connect(member))
    mail.drop("hello", hello())
    try:
        _carry_out(member, mail)
        mail.drop("left", member.rank)
    except (dist.DistStoreError, dist.DistNetworkError) as error:
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
        elif child and kind == "state":
            mail.drop(f"reply/{number}", (member.rank, child.state(is_silent=bool(busy))))
        else:  # also before another fork: the worker that conducted may have been killed
            if child and busy:
                child.kill()  # it would not leave by the end of its pipe
            end([child] if child else [])
            child, busy = None, 0
        if kind == "fork":
            group, num_by_node = what
            store = partial(connect, member, f"group/{number}")
            here = member.local_rank, num_by_node[member.node]
            child = Child(RankConfig(group, member.rank, store, *here))
        elif kind == "bye":
            return


def dismiss(mail: Mail, num_ranks: int) -> None:
    """Let the agents end while their store is there, also where they had nothing to do."""
    with contextlib.suppress(dist.DistNetworkError):  # the launcher may be gone, and its store
        mail.drop("message", ("bye",))
        mail.gather("left", num_ranks, LEAVE_S)


def greet(mail: Mail, num_ranks: int) -> list[Hello]:
    """What every rank says, by rank. Raises BrokenError, which names who is missing."""
    hellos = {hello.member.rank: hello for hello in mail.gather("hello", num_ranks, JOIN_S)}
    if missing := [str(rank) for rank in range(num_ranks) if rank not in hellos]:
        late = f"did not start within {JOIN_S:g} s, or have another's number"
        raise BrokenError(f"of {num_ranks} ranks these {late}: {', '.join(missing)}")
    return [hellos[rank] for rank in range(num_ranks)]
