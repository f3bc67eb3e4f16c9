"""Other tools' figures of a machine, kept beside our runs and never taken for one.

`results/<machine>/peers/<UTC time>-nvbandwidth.json.gz`. Compressed, so that asv, which reads every
`.json` below the results folder, leaves it alone.
"""

import gzip
import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from hostbench.core.case import AxisValue, Case
from hostbench.core.clock import now, stamp
from hostbench.core.errors import DataError, UsageError, Warn
from hostbench.core.files import read_stored, unpack, write_atomic
from hostbench.core.records import DAMAGE, encoded
from hostbench.core.units import GB
from hostbench.families import load
from hostbench.store import nvbandwidth
from hostbench.store.archive import check_format, damaged
from hostbench.store.nvbandwidth import NvbandwidthPoint

FORMAT = 1
SOURCES = (nvbandwidth.TOOL,)
"""Values of the frame's column `source` that are no points of ours."""

SCRATCH = "measured by nvbandwidth, not by hostbench"
SUFFIX = f"-{nvbandwidth.TOOL}.json.gz"
_DEVICE = re.compile(r"^(?P<index>\d+): (?P<name>.*?)(?: \([0-9a-fA-F:.]+\))?(?:: \(.*\))?$")
"""`0: NVIDIA H200 (00000000:18:00): (host name)`, of which the index and the name are kept."""


class KeptFile(Struct, frozen=True, kw_only=True):
    """What nvbandwidth wrote, and how it came here."""

    format: int = FORMAT
    tool: str = nvbandwidth.TOOL
    version: str = "unknown"
    imported_at: str = ""
    sha256: str
    """Of the file as nvbandwidth wrote it."""
    buffer_bytes: Annotated[int, Meta(gt=0)] | None = None
    """Of one copy; None where neither the file nor the user said it."""
    left_out: str = "host name and PCI address of each GPU"
    content: dict[str, Any]

    def __post_init__(self) -> None:
        if nvbandwidth.inner_of(self.content) is None:
            raise ValueError("it holds no nvbandwidth results")

    @property
    def inner(self) -> dict[str, Any]:
        """The object with the test cases."""
        return nvbandwidth.inner_of(self.content) or {}


def add(
    results: Path, machine: str, source: Path, buffer_bytes: int | None = None
) -> tuple[Path, bool]:
    """Keep a file that nvbandwidth wrote; (its place, False where the same one was there already).

    Raises UsageError where it cannot be read, DataError where it is not what nvbandwidth writes.
    """
    data = _bytes_of(source)
    content = nvbandwidth.content_of(data, str(source))
    digest = hashlib.sha256(data).hexdigest()
    folder = results / machine / "peers"
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            if _read(path).sha256 == digest:
                return path, False
        except DataError:
            continue  # reading the results names it
    _without_names(content)
    inner = nvbandwidth.inner_of(content) or {}
    kept = KeptFile(
        version=str(inner.get("version", "unknown")),
        imported_at=now(),
        sha256=digest,
        buffer_bytes=buffer_bytes or nvbandwidth.buffer_bytes(inner),
        content=content,
    )
    path = _free(folder)
    write_atomic(path, gzip.compress(encoded(kept), mtime=0))
    return path, True


def rows_of(path: Path, warn: Warn) -> list[dict[str, Any]]:
    """The frame's rows of one kept file; a damaged one is a warning that names it."""
    try:
        return _rows(path.parent.parent.name, _read(path))
    except DataError as error:
        warn(str(error))
    except DAMAGE as error:
        warn(f"{path} cannot be shown ({type(error).__name__}: {error}); left out")
    return []


def _bytes_of(source: Path) -> bytes:
    try:
        return read_stored(source)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read {source}: {why}; name a results tree, a checkout that has one, or a file "
            "that `nvbandwidth -j > FILE` wrote"
        ) from error


def _without_names(content: dict[str, Any]) -> None:
    """No host name and no bus address is stored: take them out of nvbandwidth's device list."""
    inner = nvbandwidth.inner_of(content) or {}
    inner.pop("Hostname", None)
    devices = inner.get("GPU Device list")
    if isinstance(devices, list):
        matches = [_DEVICE.match(str(line)) for line in devices]
        inner["GPU Device list"] = [
            f"{match['index']}: {match['name']}" if match else "GPU" for match in matches
        ]


def _free(folder: Path) -> Path:
    """A name that is not taken, also by another import in the same second."""
    at = stamp()
    names = [f"{at}{SUFFIX}", *(f"{at}-{number}{SUFFIX}" for number in range(2, 100))]
    return next(folder / name for name in names if not (folder / name).exists())


def _read(path: Path) -> KeptFile:
    try:
        data = json.loads(unpack(read_stored(path, path.parents[2])))
        check_format(path, data["format"], FORMAT)
        return convert(data, KeptFile)
    except (OSError, *DAMAGE) as error:
        raise damaged(path, error) from error


def _rows(machine: str, kept: KeptFile) -> list[dict[str, Any]]:
    inner = kept.inner
    names = _gpu_names(inner)
    shared = {
        "machine": machine,
        "device": "cuda",
        "driver": _text(inner.get("Driver Version")),
        "version": kept.version,
        "source": nvbandwidth.TOOL,
        "scratch": SCRATCH,
        "flags": "",
    }
    found = []
    for point in nvbandwidth.points(inner):
        hardware = names.get(point.column if point.column is not None else 0)
        found.append({**shared, "hardware": hardware, **_row(point, kept.buffer_bytes)})
    return found


def _row(point: NvbandwidthPoint, nbytes: int | None) -> dict[str, Any]:
    own_axes: Mapping[str, AxisValue]
    workload, own_axes = next(
        (
            (work.name, work.nvbandwidth[point.test])
            for work in load().values()
            if point.test in work.nvbandwidth
        ),
        (f"{nvbandwidth.TOOL}.{point.test}", {}),
    )
    axes: dict[str, AxisValue] = {"device": "cuda"}
    if nbytes and point.unit == "GB/s":
        axes["nbytes"] = nbytes
    axes |= own_axes
    if point.row is not None:
        axes["row_gpu"] = point.row
    if point.column is not None:
        axes["gpu"] = point.column
    case = Case.of(workload, axes)
    rate = point.value if point.unit == "GB/s" else None
    return {
        "family": case.family,
        "workload": workload,
        "metric": point.unit,
        "case": str(case),
        "status": point.status,
        "reason": point.reason,
        "value": point.value,
        "unit": point.unit,
        "nbytes": axes.get("nbytes"),
        "gb_per_s": math.nan if rate is None else rate,
        "seconds": nbytes / (rate * GB) if nbytes and rate else math.nan,
        **axes,
    }


def _gpu_names(inner: Mapping[str, Any]) -> dict[int, str]:
    devices = inner.get("GPU Device list")
    lines = devices if isinstance(devices, list) else []
    matches = [_DEVICE.match(str(line)) for line in lines]
    return {int(match["index"]): match["name"] for match in matches if match}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
