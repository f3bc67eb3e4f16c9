"""What is asked of the family loading: is the device fed, and what feeds it."""

from collections.abc import Mapping
from typing import Any

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.families import load
from hostbench.families.question import Best, Compare, Picture, Row, Scaling

LOOP = load(("loading",))["loading.loop"]
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "num_workers": {0: "no workers"},
    "memory": {"pageable": "pin_memory=False", "pinned": "pin_memory=True"},
    "way": {
        "on_device": "data on the device",
        "blocking": ".to(device)",
        "non_blocking": ".to(non_blocking=True)",
        "side_stream": "a side stream",
    },
    "item_bytes": {
        size: f"{units.format_bytes(int(size))} an item" for size in LOOP.axes["item_bytes"]
    },
    "persistent": {True: "persistent", False: "new"},
}


def _waits(row: Row) -> str:
    """`waits 1.72 ms for data, device idle 39% of the time`."""
    waits_s, idle = row.number("wait_s"), row.idle()
    waits = "" if waits_s is None else f"waits {units.format_seconds(waits_s)} for data"
    return ", ".join(filter(None, [waits, idle and f"{idle} of the time"]))


def _fed(row: Row) -> str:
    """The same and `8,600 items/s`."""
    rate = f"{int(row.axes['batch_size']) / row.time:,.0f} items/s"
    return ", ".join(filter(None, [_waits(row), rate]))


def _loop(*varied: str, **more: Any) -> dict[str, Any]:
    """The loop at its base point but for these axes; memory and bytes are those of the device."""
    base = {axis: value for axis, value in LOOP.baseline.items() if axis not in varied}
    return {"workload": LOOP.name, "where": base | more.pop("where", {}), "note": _fed} | more


def _on_device(row: Row) -> tuple[str, str, Mapping[str, AxisValue]]:
    """The same step, with nothing to load."""
    axes = {"way": "on_device", "batch_size": row.axes["batch_size"]}
    return WORDS["way"]["on_device"], LOOP.name, axes


QUESTIONS = (
    Scaling(
        text="How many workers does this step need?", over="num_workers",
        screen="workers, {memory}",
        **_loop("num_workers", each=("memory",)),
    ),
    Compare(
        text="What does loading cost beside data on the device, with {memory}?",
        over="num_workers", beside=_on_device, **_loop("num_workers", each=("memory",)),
    ),
    Compare(
        text="Does pin_memory=True help, with {way}?", claim={"memory": "pinned"},
        baseline={"memory": "pageable"}, screen="pin_memory=True",
        **_loop("way", where={"way": ("blocking", "non_blocking")}, each=("way",)),
    ),
    Compare(
        text="Does prefetching on a side stream help, with {memory}?",
        claim={"way": "side_stream"}, baseline={"way": "non_blocking"},
        screen="prefetch on a side stream",
        **_loop("way", where={"way": ("non_blocking", "side_stream")}, each=("memory",)),
    ),
    Compare(
        text="What does prefetch_factor change?",
        baseline={"prefetch_factor": LOOP.baseline["prefetch_factor"]},
        **_loop("prefetch_factor", each=("memory",)),
    ),
    Scaling(
        text="Which batch size is large enough?", over="batch_size", unit="items/s",
        work=lambda row: int(row.axes["batch_size"]),
        **_loop("batch_size", each=("memory",), note=_waits),
    ),
    Compare(
        text="What does starting {num_workers} cost each epoch?", workload="loading.epoch",
        each=("num_workers",), baseline={"persistent": True},
        screen="an epoch with {num_workers}",
    ),
    Best(
        text="So which DataLoader feeds this step?", workload=LOOP.name,
        axes=("num_workers", "memory", "way", "prefetch_factor"),
        where={
            "way": ("blocking", "non_blocking", "side_stream"),
            "batch_size": LOOP.baseline["batch_size"],
        },
    ),
)  # fmt: skip
PICTURES = (
    Picture(
        choice="Loader", text="Data loader", workload=LOOP.name, x=("num_workers", "batch_size")
    ),
)  # fmt: skip
