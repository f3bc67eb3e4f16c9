"""Loading: torch's own DataLoader on the cpu device."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data._utils import worker as torch_worker

from benchmarks.loading import NUM_BATCHES, FedLoop
from hostbench.core.errors import Unavailable
from hostbench.core.processes import children
from hostbench.device import torch_device
from hostbench.device.cpu import CpuDevice
from hostbench.device.loading import NUM_ITEMS, Loading

# ---- torch's DataLoader -------------------------------------------------------------------------

QUICK = Loading(batch_size=4, item_bytes=1024, item_s=(0.0,))
FED = replace(QUICK, batch_size=16)
"""Whose compute of 1 ms every machine can make, however busy."""


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    before = children()
    made = CpuDevice()
    yield made
    made.reset()
    made.close()
    assert children() == before, "the workers are gone"


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_come_whole_once_and_in_order(device: CpuDevice, num_workers: int) -> None:
    loader = device.loader(replace(QUICK, num_workers=num_workers))
    expected = [loader.expected(number) for number in range(NUM_ITEMS // QUICK.batch_size)]
    assert len({bytes(batch.numpy()) for batch in expected}) == len(expected), "no two are alike"
    addresses = [loader._items.item(number).data_ptr() for number in range(NUM_ITEMS)]
    assert max(addresses) - min(addresses) > torch_device.PATTERN_BYTES / 2, "more than caches hold"
    batches = iter(loader)
    for number in range(40):
        assert device.same_values(next(batches), expected[number]), number


@pytest.mark.parametrize("persistent", [True, False])
def test_an_epoch_ends_and_begins_again(device: CpuDevice, persistent: bool) -> None:
    loading = replace(QUICK, num_workers=2, num_batches=3, persistent=persistent)
    loader = device.loader(loading)
    started = []
    for _ in range(2):
        before = children()
        batches = [*loader]
        assert len(batches) == 3
        assert all(device.same_values(b, loader.expected(n)) for n, b in enumerate(batches))
        started.append(len(children() - before))
    assert started == ([2, 0] if persistent else [0, 0]), "those that do not persist are gone"


def test_an_item_costs_cpu_time_of_the_thread_that_loads_it(device: CpuDevice) -> None:
    batches = iter(device.loader(replace(QUICK, item_s=(0.001, 0.003))))
    for seconds in (0.004, 0.012):
        start_s = time.thread_time()
        next(batches)
        assert time.thread_time() - start_s >= seconds


@pytest.mark.parametrize("way", ["blocking", "non_blocking", "side_stream"])
def test_the_loop_proves_what_it_computed_on(device: CpuDevice, way: str) -> None:
    loop = FedLoop(device, replace(FED, num_workers=2), way)
    prepared = loop.prepared()
    assert prepared.verify is not None
    prepared.step()
    assert prepared.verify() is None
    next(loop.batches)
    first = loop.taken
    lost = [*range(first, first + NUM_BATCHES)]
    assert prepared.verify() == f"batches {lost} did not arrive whole and in order"


def test_a_batch_that_is_overwritten_while_it_is_computed_on_is_found(
    device: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = FedLoop(device, FED, "blocking")
    prepared, compute, moved = loop.prepared(), loop.compute, device.move
    seen: list[Any] = []

    def remembering(batch: Any, *, blocking: bool = True) -> Any:
        seen.append(moved(batch, blocking=blocking))
        return seen[-1]

    def careless() -> None:
        if len(seen) == 3:
            device.current.enqueue(lambda: seen[-1][500:501].add_(1))
        compute()

    monkeypatch.setattr(device, "move", remembering)
    loop.compute = careless
    assert prepared.verify is not None
    assert prepared.verify() == "batches [2] did not arrive whole and in order"


def test_an_epoch_is_proven_as_the_loop_is(device: CpuDevice) -> None:
    prepared = FedLoop(device, replace(FED, num_batches=NUM_BATCHES), "blocking").prepared()
    assert prepared.verify is not None
    assert prepared.verify() is None
    batch_bytes = FED.batch_size * FED.item_bytes
    assert prepared.copies == {"H2D pageable": NUM_BATCHES * batch_bytes}
    verify = FedLoop(device, replace(FED, num_batches=5), "blocking").prepared().verify
    assert verify is not None
    assert verify() == "5 batches came, not 8"


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where killed workers leave the folder of their sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield folder


def fail_reset_and_sleep() -> None:
    """As the worker of a launch does after a case that fails: it resets, while the error is held.
    Then two workers more, whose parent is killed; that they look for it each 5 s is put off.

    In a process of its own: torch raises from its handler of SIGCHLD, wherever the process is.
    """
    vars(torch_worker)["MP_STATUS_CHECK_INTERVAL"] = 1e4
    device, loading = CpuDevice(), replace(FED, num_workers=2)
    prepared = FedLoop(device, loading, "non_blocking").prepared()
    prepared.step()
    workers = children()
    try:
        os.kill(max(workers), signal.SIGKILL)
        for _ in range(1000):
            prepared.step()
    except (RuntimeError, OSError, EOFError):  # torch's; the others' where a batch was on its way
        device.reset()
        print(len(workers) >= 2, len(workers & children()), flush=True)
    batches = iter(device.loader(loading))
    next(batches), next(batches)
    print(*children(), flush=True)
    time.sleep(1000)


def test_neither_a_failing_case_nor_a_killed_process_leaves_a_worker(scratch: str) -> None:
    code = f"from {__name__} import fail_reset_and_sleep; fail_reset_and_sleep()"
    argv, env = [sys.executable, "-c", code], {**os.environ, "TMPDIR": scratch}
    root = Path(__file__).parents[2]
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, text=True, env=env) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "True 0\n"
        workers = [int(pid) for pid in one.stdout.readline().split()]
        one.kill()
    assert len(workers) == 2
    until_s = time.monotonic() + 60
    while any(map(is_running, workers)) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not any(map(is_running, workers))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_shared_memory_that_is_too_small_is_told_before_workers_are_killed(
    device: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(f_bavail=16, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    loading = replace(QUICK, item_bytes=4096, num_workers=2)
    with pytest.raises(Unavailable) as refused:
        device.loader(loading)
    said = "needs 128KiB of shared memory, /dev/shm has 64KiB"
    assert str(refused.value) == f"{said}: start the container with --shm-size=1g"
    device.loader(replace(loading, num_workers=0))
