"""Who comes late to a collective: stamps of every rank on the host's monotonic clock."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from hostbench.core.records import FindingValue
from hostbench.core.samples import median
from hostbench.ranks.group import current

LAST = 20
"""Steps that are looked at: those that were timed last."""
BOOT = Path("/proc/sys/kernel/random/boot_id")


class Arrivals:
    """The last rank comes `late_s` later than it could to what is done inside `noted`."""

    def __init__(self, late_s: float) -> None:
        self.group = current()
        self.late_s = late_s if self.group.rank == self.group.num_ranks - 1 else 0.0
        self.stamps: list[int] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        until = time.monotonic_ns() + round(self.late_s * 1e9)
        while (entered := time.monotonic_ns()) < until:
            pass
        yield
        self.stamps += [entered, time.monotonic_ns()]

    def findings(self) -> Mapping[str, FindingValue]:
        """On every rank; all have made equally many steps. Medians over steps, in seconds. Nothing
        is known of ranks on several hosts, which have no clock in common."""
        stamps = [int(BOOT.read_text()[:8], 16), *self.stamps[-2 * LAST :]]
        mine = torch.tensor(stamps, device=self.group.device.torch_device)
        every = [torch.empty_like(mine) for _ in range(self.group.num_ranks)]
        self.group.counted("all_gather", lambda: dist.all_gather(every, mine))()
        boots, *times = torch.stack(every).T.tolist()
        if len(set(boots)) > 1:
            return {"late_rank_named": None}
        came, left = times[::2], times[1::2]
        last = Counter(row.index(max(row)) for row in came).most_common(1)[0][0]
        ends = zip(came, left, strict=True)
        return {
            "transfer_s": median([(max(out) - max(row)) / 1e9 for row, out in ends]),
            "waiting_s": median([(max(row) - min(row)) / 1e9 for row in came]),
            "last_rank": f"rank {last}",
            "late_rank_named": last == self.group.num_ranks - 1,
        }
