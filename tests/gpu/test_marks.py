"""Notes of what a buffer held, taken by the device in the order of its stream."""

import pytest

from hostbench.core.units import MIB
from hostbench.device.base import Buffer
from hostbench.device.cuda import CudaDevice

pytestmark = pytest.mark.gpu

DELAY_S = 0.05
ODD = 3 * MIB + 5


def sources(cuda: CudaDevice) -> tuple[Buffer, Buffer]:
    both = tuple(cuda.host_buffer(ODD, pinned=True) for _ in range(2))
    for seed, source in enumerate(both):
        cuda.fill_pattern(source, seed=seed)
    return both[0], both[1]


def test_a_note_holds_what_was_there_at_that_point(cuda: CudaDevice) -> None:
    first, second = sources(cuda)
    there, marks = cuda.buffer(ODD), cuda.marks(3)
    cuda.copy(there, first, blocking=False)
    cuda.mark(marks, 0, there)
    cuda.copy(there, second, blocking=False)
    cuda.mark(marks, 2, there)
    cuda.synchronize()
    assert cuda.marked(marks, 0, first) and not cuda.marked(marks, 0, second)
    assert cuda.marked(marks, 2, second) and not cuda.marked(marks, 2, first)
    assert not cuda.marked(marks, 1, first), "nothing was noted there"


@pytest.mark.parametrize("place", [0, 7, -8, -1])
def test_one_byte_at_either_end_is_seen(cuda: CudaDevice, place: int) -> None:
    source, _ = sources(cuda)
    there, marks = cuda.buffer(ODD), cuda.marks(1)
    cuda.copy(there, source, blocking=True)
    there[place] ^= 1
    cuda.mark(marks, 0, there)
    cuda.synchronize()
    assert not cuda.marked(marks, 0, source)


def test_noting_is_enqueued_and_does_not_wait(cuda: CudaDevice) -> None:
    source, _ = sources(cuda)
    there, marks = cuda.buffer(ODD), cuda.marks(1)
    cuda.mark(marks, 0, there)  # the first one loads its kernel
    cuda.delay(0.001)  # calibrates
    cuda.synchronize()
    noted = cuda.event(timing=False)
    cuda.delay(DELAY_S)
    cuda.copy(there, source, blocking=False)
    cuda.mark(marks, 0, there)
    noted.record()
    assert not noted.query()
    cuda.synchronize()
    assert cuda.marked(marks, 0, source)
