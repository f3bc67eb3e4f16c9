"""The steps of the family synchronization, which are counted on the device: so is proven that each
has run, and that its trap has read what the steps before it had made."""

from collections.abc import Callable
from typing import Any, Literal

from hostbench.device.base import Device, HostRead, Step, learned
from hostbench.measure.measure import Prepared

LoopTrap = HostRead | Literal["none", "item_every_10", "graph"]


class CountedSteps:
    """A step, and what the tensor that it adds to has to come to."""

    def __init__(self, device: Device, step_us: int) -> None:
        self._compute = device.compute(step_us / 1e6)
        self._device, self._counter = device, device.counter()
        self._num_steps, self._trapped_at = 0, 0
        self._returned: Any = None

    def body(self) -> None:
        """What the device does in a step."""
        self._compute()
        self._device.advance(self._counter)

    def prepared(self, trap: LoopTrap, every: int = 1) -> Prepared:
        """The loop with this trap in each step, or after every so many."""
        if trap == "item_every_10":
            return self.prepared("item", every=10)
        if trap == "none":
            return self._prepared(self._counted(self.body), lambda: None)
        if trap == "graph":
            replay = self._device.graph(self.body)
            self._num_steps = round(self._now())  # it was warmed up
            return self._prepared(self._counted(replay), lambda: None)
        step = self._trapped(self._device.host_read(trap, self._counter), every)
        return self._prepared(step, lambda: self._misread(trap))

    def _counted(self, body: Step) -> Step:
        def step() -> None:
            body()
            self._num_steps += 1

        return step

    def _trapped(self, trap: Callable[[], Any], every: int) -> Step:
        """In the midst of the steps that share one: not at the loop's end, where all wait."""

        def step() -> None:
            self.body()
            self._num_steps += 1
            if (self._num_steps + every // 2) % every == 0:
                self._returned = trap()
                self._trapped_at = self._num_steps

        return step

    def _prepared(self, step: Step, misread: Callable[[], str | None]) -> Prepared:
        return Prepared(
            step=step, verify=lambda: self._miscounted() or misread(), counts_syncs=True
        )

    def _now(self) -> float:
        return float(self._device.host_read("item", self._counter)())

    def _miscounted(self) -> str | None:
        """Each step has run, once."""
        number = self._now()
        if number == self._num_steps:
            return None
        return f"the steps counted to {number:g}, not to {self._num_steps}"

    def _misread(self, trap: HostRead) -> str | None:
        """The trap has read what the steps before it had made."""
        wanted = learned(trap, self._trapped_at)
        if wanted is None:
            return None
        read = self._returned.tolist() if hasattr(self._returned, "tolist") else self._returned
        said = f"after step {self._trapped_at} {trap} read {read}, not {wanted}"
        return None if read == wanted else said
