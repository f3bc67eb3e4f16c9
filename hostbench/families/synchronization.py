"""What is asked of the family synchronization: what a wait costs a loop, by the length of steps."""

from collections.abc import Mapping

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.families.question import Compare, Picture, Row

LOOP = "synchronization.loop"
DRAWN = ("none", "item", "item_every_10", "print", "nonzero", "synchronize", "shape", "graph")
SHOWN = ("item", "print", "bool", "shape", "graph")
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "trap": {
        "none": "no wait",
        "item": ".item()",
        "item_every_10": ".item() every 10 steps",
        "print": "print(t)",
        "bool": "bool(t)",
        "if_greater": "if t > 0",
        "cpu": ".cpu()",
        "tolist": ".tolist()",
        "nonzero": "nonzero",
        "mask": "t[t > 0]",
        "synchronize": "device synchronize",
        "shape": "t.shape",
        "graph": "a CUDA graph",
    },
    "step_us": {us: units.format_seconds(us / 1e6) for us in (10, 100, 1_000, 10_000)},
    "num_queued": {1: "each step", **{num: f"every {num} steps" for num in (2, 5, 10, 50)}},
    "way": {
        "device": "sync",
        "stream": "stream",
        "event": "event",
        "event_query": "polling",
        "blocking_event": "blocking event",
    },
}


def waits(row: Row) -> str:
    """`1 wait a step, device idle 76 %`."""
    num = row.number("syncs_per_step")
    counted = "" if num is None else f"{num:g} {'wait' if num == 1 else 'waits'} a step"
    return ", ".join(filter(None, [counted, row.idle()]))


def _reads(text: str, *steps_us: int, shown: tuple[str, ...]) -> Compare:
    return Compare(
        text=text, workload=LOOP,
        where={"step_us": steps_us}, each=("step_us",), note=waits,
        screen="{step_us} step", screen_each={"trap": shown},
    )  # fmt: skip


QUESTIONS = (
    Compare(
        text="What does a loop gain without .item() in each step, by the length of its steps?",
        workload=LOOP, where={"trap": DRAWN}, claim={"trap": "none"}, baseline={"trap": "item"},
        over="step_us", note=waits,
    ),
    _reads("What does reading a result cost in steps of {step_us}?", 10, 100, shown=SHOWN),
    _reads("What does it cost in long steps, of {step_us}?", 1_000, shown=("item",)),
    Compare(
        text="What does reading less often save?", workload="synchronization.queued",
        note=waits,
    ),
    Compare(
        text="Which way to wait costs least?", workload="synchronization.wait",
        screen="100 us wait",
    ),
    Compare(
        text="Does a CUDA graph speed up steps of {step_us}?", workload=LOOP,
        where={"step_us": 10, "trap": ("none", "graph")}, each=("step_us",),
        claim={"trap": "graph"},
    ),
)  # fmt: skip
PICTURES = (
    Picture(
        choice="Sync", text="Reads that wait for the device", workload=LOOP, x=("step_us",)
    ),
)  # fmt: skip
