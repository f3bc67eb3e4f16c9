"""What many quick readings of one GPU add up to: highest, lowest under load, all reasons."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hostbench.core.units import MIB
from hostbench.facts.record import Fact, Group, Value, known, unknown
from hostbench.facts.spec import GPU, Watched
from hostbench.facts.words import THROTTLE_WORDS

WATCHED = {row.name: row.watched for row in GPU if row.watched}
BYTES = ("pcie_tx_total_bytes", "pcie_rx_total_bytes")
LOAD_BYTES = MIB
"""So much through the link since the reading before is load: NVML's own traffic stays far below."""


@dataclass(slots=True)
class LoadReadings:
    """One GPU so far. Facts that were never read keep the last reason."""

    num_samples: int = 0
    num_under_load: int = 0
    group: Group = field(default_factory=dict)
    _bytes: float | None = None

    def add(self, sample: Group) -> None:
        """Take in one reading of WATCHED and BYTES."""
        self.num_samples += 1
        loaded = self._is_under_load(sample)
        self.num_under_load += loaded
        for name, how in WATCHED.items():
            if loaded or how == "highest":
                self._fold(name, sample[name], _CHOOSE[how])

    def facts(self) -> Group:
        idle = unknown("no load was seen while the GPU was watched")
        return {
            **{name: self.group.get(name, idle) for name in WATCHED},
            "num_watch_samples": known(self.num_samples),
            "num_watch_samples_under_load": known(self.num_under_load),
        }

    def _is_under_load(self, sample: Group) -> bool:
        """Bytes went through the link, or NVML does not call the GPU idle; else it cannot be told.

        Where neither can be read every reading counts.
        """
        counts = [sample[name].value for name in BYTES]
        before, self._bytes = self._bytes, None
        if all(isinstance(count, int) for count in counts):
            self._bytes = float(sum(int(count) for count in counts if count is not None))
        moved = None if before is None or self._bytes is None else self._bytes - before
        if moved is not None and not 0 <= moved < LOAD_BYTES:
            return True  # a counter that fell has wrapped: it moved
        reasons = sample["throttle_reasons"].value
        if isinstance(reasons, str):
            return "idle" not in reasons.split(",")
        return self._bytes is None

    def _fold(self, name: str, fact: Fact, choose: Callable[[Value, Value], Value]) -> None:
        before = self.group.get(name)
        if before is None or before.value is None:
            self.group[name] = fact
        elif fact.value is not None:
            self.group[name] = known(choose(before.value, fact.value) or before.value)


def _highest(a: Value, b: Value) -> Value:
    return max(a, b) if isinstance(a, int | float) and isinstance(b, int | float) else b


def _lowest(a: Value, b: Value) -> Value:
    return min(a, b) if isinstance(a, int | float) and isinstance(b, int | float) else b


def _union(a: Value, b: Value) -> Value:
    """Both lists of words, in NVML's order; "none" only where there is no other."""
    found = {word for words in (a, b) for word in str(words).split(",")} - {"none"}
    order = [*THROTTLE_WORDS.values()]
    listed = [word for word in order if word in found]
    return ",".join([*listed, *sorted(found - set(order))]) or "none"


_CHOOSE: dict[Watched, Callable[[Value, Value], Value]] = {
    "highest": _highest,
    "lowest under load": _lowest,
    "union under load": _union,
}
