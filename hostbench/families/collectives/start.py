"""The stages of a job's start, over ranks whose own group has long started."""

import os
import socket
from typing import Any

import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from hostbench.core.units import KIB
from hostbench.families.collectives.exchange import Collective
from hostbench.measure.measure import Prepared
from hostbench.ranks.group import current
from hostbench.ranks.launch import VARIABLE


class Start:
    """`rendezvous`, `init` or `first`, over and over; what one leaves is taken down before the
    next, outside the timer."""

    def __init__(self, stage: str) -> None:
        self.group, self.stage = current(), stage
        self.mine = Collective.here("all_reduce", 4 * KIB)
        self.made: list[Any] = []

    def prepared(self) -> Prepared:
        """Only the last stage is a collective, of which a GPU has kernels."""
        step = getattr(self, self.stage)
        if self.stage == "first":
            step = self.group.counted("all_reduce", step)
        return Prepared(step=step, before=self.before, verify=self.wrong, one_stream=False)

    def before(self) -> None:
        """Rank 0 listens at a port that is free, and tells the others which."""
        self.drop()
        self.mine.refill()
        if self.stage == "first":
            self.init()
        if self.stage == "rendezvous":
            self.server = socket.create_server(("", 0)) if self.group.rank == 0 else None
            port = [self.server.getsockname()[1] if self.server else 0]
            where = self.group.device.torch_device
            self.group.counted(
                "broadcast", lambda: dist.broadcast_object_list(port, device=where)
            )()
            self.port = port[0]

    def drop(self) -> None:
        """Once all are done with it: who waits for a peer that has left fails."""
        if self.made:
            self.group.barrier()
        while self.made and self.stage != "rendezvous":
            dist.destroy_process_group(self.made.pop())
        self.made.clear()

    def rendezvous(self) -> None:
        store = TCPStore(
            os.environ["MASTER_ADDR"] if os.environ.get(VARIABLE) else "127.0.0.1",
            self.port,
            self.group.num_ranks,
            is_master=self.server is not None,
            master_listen_fd=self.server.detach() if self.server else None,
        )
        store.set(str(self.group.rank), "here")
        self.made.append(store)

    def init(self) -> None:
        self.made.append(dist.new_group(backend=self.group.backend))

    def first(self) -> None:
        dist.all_reduce(self.mine.result, group=self.made[0])

    def wrong(self) -> str | None:
        """Which ranks are not in the store, or what is wrong with the new group's sum."""
        if self.stage == "rendezvous":
            keys = map(str, range(self.group.num_ranks))
            absent = [rank for rank in keys if not self.made[0].check([rank])]
            message = f"not in the store: {', '.join(absent)}" if absent else None
        else:
            if self.stage == "init":
                self.group.counted("all_reduce", self.first)()
            self.group.synchronize()
            message = self.mine.first_wrong()
        self.drop()
        return message
