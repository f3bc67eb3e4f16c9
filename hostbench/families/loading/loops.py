"""A loop that takes batches of a DataLoader and computes.

The loop waits for the compute of the batch before the last, and then asks for the next batch. So
the device has one compute to do while the host loads, enqueues and copies, as in a training loop
that reads its loss a step later, or whose launches fill the queue. A host that ran ahead without
end would wait for data while the device has plenty to do.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import repeat

from hostbench.device.base import Buffer, Device, Step
from hostbench.device.loading import Loading
from hostbench.measure.measure import Prepared

NUM_BATCHES = 8
"""Of a reading, and of an epoch."""
EVEN_ITEM_S, LARGE_ITEM_S, SMALL_ITEM_S = 100e-6, 450e-6, 50e-6
ITEM_S = tuple(
    LARGE_ITEM_S if place == -group % NUM_BATCHES else SMALL_ITEM_S
    for group in range(NUM_BATCHES)
    for place in range(NUM_BATCHES)
)
"""Of each 8 batches one is of large items, each time at another place, so that no worker gets them
all: 100 us on average."""
COMPUTE_S = 62.5e-6
"""Of each item on the device: 1 ms for a batch of 16."""
_AHEAD = 2
_NOTED_READINGS = 3


class FedLoop:
    """What one case runs: `step` is one batch, `epoch` all of an epoch."""

    def __init__(self, device: Device, loading: Loading, way: str) -> None:
        self.device, self.loading = device, loading
        self.copies, self.computes = device.stream(), device.stream()
        self.copied = device.event(timing=False)
        self.computed = [device.event(timing=False) for _ in range(_AHEAD)]
        self.compute = device.compute(COMPUTE_S * loading.batch_size)
        ways: Mapping[str, Callable[[Buffer], None]] = {
            "on_device": self._use,
            "blocking": lambda batch: self._use(device.move(batch, blocking=True)),
            "non_blocking": lambda batch: self._use(device.move(batch, blocking=False)),
            "side_stream": self._on_side_stream,
        }
        self.bring, self.taken = ways[way], 0
        self.waits_s: deque[float] = deque(maxlen=_NOTED_READINGS * NUM_BATCHES)
        self.notes: list[Buffer] | None = None
        self.loader = None if way == "on_device" else device.loader(loading)
        self.batches: Iterator[Buffer]

    def prepared(self) -> Prepared:
        """One batch after the other, of an epoch without end."""
        if self.loader is None:
            self.batches = repeat(self.device.buffer(self.loading.batch_bytes))
            return Prepared(step=self.step, copies={}, one_stream=False)
        self.batches = iter(self.loader)
        warmup_steps = -(-(self.loading.ahead + _AHEAD) // NUM_BATCHES) * NUM_BATCHES
        return self._prepared(
            self.step,
            NUM_BATCHES,
            warmup_steps=warmup_steps,
            findings=lambda: {"wait_s": sum(self.waits_s) / len(self.waits_s)},
        )

    def prepared_epoch(self) -> Prepared:
        """A whole epoch as one step."""
        return self._prepared(self.epoch, 1)

    def _prepared(self, step: Step, steps: int, **options: object) -> Prepared:
        """With the check of an epoch, which takes so many steps."""
        memory = "pinned" if self.loading.pinned else "pageable"
        nbytes = NUM_BATCHES // steps * self.loading.batch_bytes
        check = partial(self._check, step, steps)
        copies = {f"H2D {memory}": nbytes}
        return Prepared(step=step, verify=check, copies=copies, one_stream=False, **options)  # type: ignore[arg-type]

    def step(self) -> None:
        self._keep_close()
        start_s = self.device.now()
        batch = next(self.batches)
        self.waits_s.append(self.device.now() - start_s)
        self.bring(batch)
        self.taken += 1

    def epoch(self) -> None:
        assert self.loader is not None
        for batch in self.loader:
            self._keep_close()
            self.bring(batch)
            self.taken += 1

    def _keep_close(self) -> None:
        """Wait for the compute of the batch before the last."""
        self.computed[self.taken % _AHEAD].synchronize()

    def _on_side_stream(self, batch: Buffer) -> None:
        """The copy on a stream of its own, beside the compute of the batch before."""
        device = self.device
        with device.on(self.copies):
            moved = device.move(batch, blocking=False)
            self.copied.record()
        with device.on(self.computes):
            self.computes.wait(self.copied)
            self._use(moved)
            device.keep_for(moved, self.computes)

    def _use(self, batch: Buffer) -> None:
        """Compute on the current stream."""
        self._note(batch)
        self.compute()
        self._note(batch)
        self.computed[self.taken % _AHEAD].record()

    def _note(self, batch: Buffer) -> None:
        """While checking: what the batch holds when its compute begins, and when it has ended."""
        if self.notes is not None:
            note = self.device.buffer(self.loading.batch_bytes)
            self.device.copy(note, batch, blocking=False)
            self.notes.append(note)

    def _check(self, step: Step, steps: int) -> str | None:
        """After timing: the next batches are those that follow on all that were taken before, byte
        for byte, when their compute began and when it had ended."""
        assert self.loader is not None
        first, notes, wrong = self.taken, list[Buffer](), list[int]()
        self.notes = notes
        try:
            for _ in range(steps):
                step()
            self.device.synchronize()
        finally:
            self.notes = None
        for number in range(first, self.taken):
            expected = self.loader.expected(number % (self.loading.num_batches or number + 1))
            held = notes[2 * (number - first) :][:2]
            if not all(self.device.same_values(note, expected) for note in held):
                wrong.append(number)
        if self.taken - first != NUM_BATCHES:
            return f"{self.taken - first} batches came, not {NUM_BATCHES}"
        return f"batches {wrong} did not arrive whole and in order" if wrong else None
