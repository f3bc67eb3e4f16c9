"""The world of ranks that a launcher has started: who they are, and whether all are alike. Pure."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from hostbench.core.errors import UsageError

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
    def from_environ(cls) -> Self:
        """Raises UsageError where a variable lacks or holds no number."""
        names = next((names for names in _VARIABLES if {*names[:3]} <= os.environ.keys()), None)
        if names is None:
            raise UsageError(
                "no launcher has started this: write torchrun --nnodes=N --nproc-per-node=G -m "
                "hostbench.ranks, or start it with srun or mpirun; one host needs only `hostbench "
                "run collectives`"
            )
        lacks = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
        if lacks:
            raise UsageError(
                f"{' and '.join(lacks)} not set: export MASTER_ADDR, rank 0's host, and "
                "MASTER_PORT, a free port there, to every process (torchrun does it itself)"
            )
        try:
            rank, num_ranks, local_rank = (int(os.environ[name]) for name in names[:3])
        except ValueError as error:
            raise UsageError(f"{', '.join(names[:3])}: {error}; see docs/cluster.md") from error
        host = socket.gethostname()
        return cls(rank, num_ranks, local_rank, host, f"{host} {os.environ.get(names[3], '')}")

    @property
    def name(self) -> str:
        return f"rank {self.rank} on {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a rank says of itself before anything is timed."""

    member: Member
    alike: Mapping[str, object] = field(default_factory=dict)  # what every host has to have
    machine: str = ""  # its host's name as a machine, of the first rank on each; and its facts
    facts: Mapping[str, Any] | None = None
    wrong: str = ""  # why it cannot take part


def require_alike(hellos: Sequence[Hello]) -> None:
    """Raises UsageError, which names who cannot take part or differs from rank 0."""
    first = hellos[0]
    for hello in hellos:
        if hello.wrong:
            raise UsageError(f"{hello.member.name}: {hello.wrong}")
        for what in {**first.alike, **hello.alike}:
            value, usual = hello.alike.get(what, "none"), first.alike.get(what, "none")
            if value != usual:
                differing = f"{hello.member.name} has {what}: {value}, {first.member.name} {usual}"
                raise UsageError(f"{differing}: every host needs the same")
