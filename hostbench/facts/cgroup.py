"""Limits that a container or a batch system puts on this process: cgroup v2, then v1."""

import math
from collections.abc import Iterator
from pathlib import Path

from hostbench.facts.files import read_int, read_text

_NO_LIMIT_BYTES = 1 << 60
"""cgroup v1 says "no limit" with a huge number of bytes."""


def cpu_quota_cores(root: Path) -> float | None:
    """The tightest CPU quota in cores over this process's cgroup and its parents, or None."""
    quotas = [_v2_quota(folder) for folder in _folders(root, "")]
    quotas += [_v1_quota(folder) for folder in _folders(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit_bytes(root: Path) -> int | None:
    """The tightest memory limit over this process's cgroup and its parents, or None."""
    limits = [read_int(folder / "memory.max") for folder in _folders(root, "")]
    limits += [read_int(folder / "memory.limit_in_bytes") for folder in _folders(root, "memory")]
    bounded = [limit for limit in limits if limit is not None and limit < _NO_LIMIT_BYTES]
    return min(bounded, default=None)


def usable_cores(affinity: int | None, quota: float | None) -> int | None:
    """Cores that this process may use at once; a fraction of a core counts as one."""
    limits = [] if affinity is None else [affinity]
    if quota is not None:
        limits.append(max(1, math.ceil(quota)))
    return min(limits, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's folder of a v1 controller (or of v2, for ""), and its parents.

    Inside a container the path in /proc often does not exist below the mount: the mount itself
    is then the container's own folder.
    """
    mount = root / "sys/fs/cgroup" / controller
    inner = Path(_own_path(root, controller).strip("/"))
    for part in (inner, *inner.parents):
        if ".." not in part.parts:
            yield mount / part


def _own_path(root: Path, controller: str) -> str:
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            return path
    return "/"


def _v2_quota(folder: Path) -> float | None:
    quota, _, period = (read_text(folder / "cpu.max") or "").partition(" ")
    if not (quota.isdigit() and period.isdigit()):
        return None
    return int(quota) / int(period) if int(period) else None


def _v1_quota(folder: Path) -> float | None:
    quota = read_int(folder / "cpu.cfs_quota_us")
    period = read_int(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None
