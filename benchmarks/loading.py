"""loading: torch's DataLoader and the loop that it feeds.

The dataset is map-style. An item is an image of 224 x 224 x 3 bytes (of 96 x 96 x 3 on the cpu
device) and costs 100 us of CPU time on average: of every 8 batches the items of one cost 450 us,
the others' 50 us, as some images are larger. The compute takes 62.5 us of the device for each item.
Around one base point (4 workers, prefetch_factor 2, batches of 16) one thing varies at a time.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any

from hostbench import DEVICES, Device, Prepared, suite, workload

ORDER = 35  # of the families in a report


def setup_cache():
    return suite.measure("loading")


NUM_BATCHES = 8  # of a reading and of an epoch
EVEN_ITEM_S, LARGE_ITEM_S, SMALL_ITEM_S = 100e-6, 450e-6, 50e-6
ITEM_S = tuple(
    LARGE_ITEM_S if batch == -group % NUM_BATCHES else SMALL_ITEM_S
    for group in range(NUM_BATCHES)
    for batch in range(NUM_BATCHES)
)
"""Of each 8 batches one is of large items, each time at another place, so that no worker gets them
all: 100 us on average."""
COMPUTE_S = 62.5e-6  # of each item on the device: 1 ms for a batch of 16
_AHEAD = 2
_NOTED_READINGS = 3
BATCH_SIZE = 16
ITEM_BYTES = {"cuda": 224 * 224 * 3, "cpu": 96 * 96 * 3}
BASE: dict[str, Any] = {
    "num_workers": 4,
    "way": "non_blocking",
    "prefetch_factor": 2,
    "batch_size": BATCH_SIZE,
}


def _differs(device: str, **axes: Any) -> dict[str, Any]:
    """What is not as at the base point."""
    memory = "pinned" if device == "cuda" else "pageable"
    base = {**BASE, "memory": memory, "item_bytes": ITEM_BYTES[device]}
    return {axis: axes[axis] for axis in base if axes[axis] != base[axis]}


def _only(**axes: Any) -> bool:
    """One thing at a time; memory and way are one thing. Nothing loads what is on the device."""
    differs = _differs(**axes)
    if "item_bytes" in differs:
        return False
    if axes["way"] == "on_device":
        nothing = {"num_workers": 0, "memory": "pageable", "prefetch_factor": 2}
        return nothing.items() <= axes.items()
    return len(differs) < 2 or differs.keys() == {"memory", "way"}


def _quick(device: str, **axes: Any) -> bool:
    """Of each question that has room; a run says which ones it has left out."""
    wanted: list[dict[str, Any]] = [{}, {"num_workers": 0}]
    if device == "cuda":
        wanted += [{"batch_size": 1}, {"memory": "pageable"}, {"way": "side_stream"}]
    else:  # these say why they are skipped
        wanted += [{"memory": "pinned"}, {"memory": "pinned", "way": "side_stream"}]
    return _differs(device, **axes) in wanted


class FedLoop:
    """A loop that takes batches and computes: `step` is one batch, `epoch` all of an epoch.

    It waits for the compute of the batch before the last, and then asks for the next batch. So the
    device has one compute to do while the host loads, enqueues and copies, as in a training loop
    that reads its loss a step later, or whose launches fill the queue. A host that ran ahead
    without end would wait for data while the device has plenty to do.
    """

    def __init__(self, device: Device, loading: Any, way: str) -> None:
        self.device, self.loading = device, loading
        self.copies, self.computes = device.stream(), device.stream()
        self.copied = device.event(timing=False)
        self.computed = [device.event(timing=False) for _ in range(_AHEAD)]
        self.compute = device.compute(COMPUTE_S * loading.batch_size)
        ways: Mapping[str, Callable[[Any], None]] = {
            "on_device": self._use,
            "blocking": lambda batch: self._use(device.move(batch, blocking=True)),
            "non_blocking": lambda batch: self._use(device.move(batch, blocking=False)),
            "side_stream": self._on_side_stream,
        }
        self.bring, self.taken = ways[way], 0
        self.waits_s: deque[float] = deque(maxlen=_NOTED_READINGS * NUM_BATCHES)
        self.notes: list[tuple[int, Any]] | None = None
        self.loader = None if way == "on_device" else device.loader(loading)
        self.batches: Iterator[Any]

    def prepared(self) -> Prepared:
        """One batch after the other, of an epoch without end; else the whole epoch as one step."""
        loading = self.loading
        if self.loader is None:
            self.batches = repeat(self.device.buffer(loading.batch_bytes))
            return Prepared(step=self.step, copies={}, one_stream=False)
        copied = "H2D pinned" if loading.pinned else "H2D pageable"
        if loading.num_batches:
            copies = {copied: loading.num_batches * loading.batch_bytes}
            check = partial(self._check, self.epoch)
            return Prepared(step=self.epoch, verify=check, copies=copies, one_stream=False)
        self.batches = iter(self.loader)
        return Prepared(
            step=self.step,
            verify=partial(self._check, self.step, NUM_BATCHES),
            copies={copied: loading.batch_bytes},
            warmup_steps=-(-(loading.ahead + _AHEAD) // NUM_BATCHES) * NUM_BATCHES,
            findings=lambda: {"wait_s": sum(self.waits_s) / len(self.waits_s)},
            one_stream=False,
        )

    def step(self) -> None:
        self.computed[self.taken % _AHEAD].synchronize()  # of the batch before the last
        start_s = self.device.now()
        batch = next(self.batches)
        self.waits_s.append(self.device.now() - start_s)
        self.bring(batch)
        self.taken += 1

    def epoch(self) -> None:
        assert self.loader is not None
        for batch in self.loader:
            self.computed[self.taken % _AHEAD].synchronize()  # of the batch before the last
            self.bring(batch)
            self.taken += 1

    def _on_side_stream(self, batch: Any) -> None:
        """The copy on a stream of its own, beside the compute of the batch before."""
        device = self.device
        with device.on(self.copies):
            moved = device.move(batch, blocking=False)
            self.copied.record()
        with device.on(self.computes):
            self.computes.wait_event(self.copied)
            self._use(moved)
            device.keep_for(moved, self.computes)

    def _use(self, batch: Any) -> None:
        """Compute on the current stream."""
        self._note(batch)
        self.compute()
        self._note(batch)
        self.computed[self.taken % _AHEAD].record()

    def _note(self, batch: Any) -> None:
        """While checking: what the batch holds when its compute begins, and when it has ended."""
        if self.notes is not None:
            note = self.device.buffer(self.loading.batch_bytes)
            self.device.copy(note, batch, blocking=False)
            self.notes.append((self.taken, note))

    def _check(self, step: Callable[[], None], steps: int = 1) -> str | None:
        """After timing: the next batches are those that follow on all that were taken before, byte
        for byte, when their compute began and when it had ended."""
        assert self.loader is not None
        notes: list[tuple[int, Any]] = []
        self.notes = notes
        for _ in range(steps):
            step()
        self.device.synchronize()
        self.notes, of_epoch = None, self.loading.num_batches
        wrong = set[int]()
        for number, note in notes:
            expected = self.loader.expected(number % of_epoch if of_epoch else number)
            if not self.device.same_values(note, expected):
                wrong.add(number)
        if len(notes) != 2 * NUM_BATCHES:
            return f"{len(notes) // 2} batches came, not {NUM_BATCHES}"
        return f"batches {sorted(wrong)} did not arrive whole and in order" if wrong else None


@workload(
    axes={
        "device": DEVICES,
        "num_workers": (0, 1, 2, 4, 8),
        "memory": ("pageable", "pinned"),
        "way": ("on_device", "blocking", "non_blocking", "side_stream"),
        "prefetch_factor": (1, 2, 4),
        "batch_size": (1, 4, 16, 64),
        "item_bytes": (96 * 96 * 3, 224 * 224 * 3),
    },
    only=_only,
    moves=lambda way, batch_size, item_bytes, **_: (way != "on_device") * batch_size * item_bytes,
    rate_of="the batches that the loop takes",
    depth=NUM_BATCHES,
    needs=lambda memory, **_: ["pinned memory"] if memory == "pinned" else [],
    quick=_quick,
    baseline=BASE,
    version="2",
)
def loop(
    device: Device,
    num_workers: int,
    memory: str,
    way: str,
    prefetch_factor: int,
    batch_size: int,
    item_bytes: int,
) -> Prepared:
    """A batch of a DataLoader, brought to the device and computed on. Timed: an eighth of 8.

    One synchronize ends the loop. The workers run before it begins, and go on after it."""
    from hostbench.device.loading import Loading

    loading = Loading(
        batch_size=batch_size,
        item_bytes=item_bytes,
        item_s=ITEM_S,
        num_workers=num_workers,
        pinned=memory == "pinned",
        prefetch_factor=prefetch_factor,
    )
    return FedLoop(device, loading, way).prepared()


@workload(
    axes={
        "device": DEVICES,
        "num_workers": (1, 4),
        "persistent": (True, False),
        "item_bytes": (96 * 96 * 3, 224 * 224 * 3),
    },
    only=lambda device, item_bytes, **_: item_bytes == ITEM_BYTES[device],
    moves=lambda item_bytes, **_: NUM_BATCHES * BATCH_SIZE * item_bytes,
    rate_of="the batches that the loop takes",
    quick=lambda device, num_workers, **_: device == "cpu" and num_workers == 1,
    version="2",
)
def epoch(device: Device, num_workers: int, persistent: bool, item_bytes: int) -> Prepared:
    """An epoch of 8 batches of 16 items, 100 us each. Timed: the epoch and one synchronize.

    Workers that do not persist are started and ended in it."""
    from hostbench.device.loading import Loading

    loading = Loading(
        batch_size=BATCH_SIZE,
        item_bytes=item_bytes,
        item_s=(EVEN_ITEM_S,),
        num_workers=num_workers,
        num_batches=NUM_BATCHES,
        persistent=persistent,
    )
    return FedLoop(device, loading, "blocking").prepared()
