"""Which copies return before the stream gets to them, at every size."""

import pytest

from hostbench.core.units import KIB, MIB
from hostbench.device.cuda import CudaDevice
from tests.gpu.delay import probe_all, shown

pytestmark = pytest.mark.gpu

SIZES = tuple(KIB * 4**power for power in range(10))
"""1KiB to 256MiB."""


def test_pinned_copies_return_early_and_blocking_ones_wait(cuda: CudaDevice) -> None:
    cells = list(probe_all(cuda, SIZES))
    early: dict[str, list[int]] = {}
    for cell in cells:
        if cell.returns_early:
            early.setdefault(cell.way, []).append(cell.nbytes)
    print(*map(shown, cells), sep="\n")
    for way in ("H2D", "D2H"):
        assert early[f"{way} pinned non_blocking"] == list(SIZES)
        assert f"{way} pinned blocking" not in early
        assert not [size for size in early.get(f"{way} pageable non_blocking", ()) if size > MIB]
