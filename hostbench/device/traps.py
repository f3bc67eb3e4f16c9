"""What a program does with a small tensor of the device, and what it learns by it."""

from typing import Any, Literal

Trap = Literal[
    "item",
    "print",
    "bool",
    "if_greater",
    "cpu",
    "tolist",
    "nonzero",
    "mask",
    "synchronize",
    "shape",
]
"""`t.item()`, `print(t)`, `bool(t)`, `if t > 0`, `t.cpu()`, `t.tolist()`, `torch.nonzero(t)`,
`t[t > 0]`, a device-wide synchronize; and `t.shape`, which needs nothing of the device."""


def learned(how: Trap, number: float) -> Any:
    """What the host knows after it of a tensor of this one number, as Python's own values; None
    where it learns nothing of it."""
    return {
        "item": number,
        "bool": number != 0,
        "if_greater": number > 0,
        "cpu": [number],
        "tolist": [number],
        "nonzero": [[0]] if number else [],
        "mask": [number] if number > 0 else [],
    }.get(how)
