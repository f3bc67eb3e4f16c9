"""What a check is and what it answers."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Status = Literal["answered", "unavailable", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`text` is for people, `data` holds the same in plain JSON values where there is more."""

    status: Status
    text: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question. `ask` gets the report's folder; it may raise: Unavailable is `unavailable`,
    anything else `failed`."""

    name: str
    question: str
    ask: Callable[[Path], Answer]
    budget_s: float
    """After this time the check's processes are ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A check with its answer."""

    name: str
    question: str
    answer: Answer
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def answered(text: str, **data: Any) -> Answer:
    return Answer(status="answered", text=text, data=data)
