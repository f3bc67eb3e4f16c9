"""The GPU's own counters of the bytes on its links, read through NVML."""

from typing import Any

from hostbench.core.errors import Unavailable
from hostbench.core.units import KIB
from hostbench.facts.gpu import gpu_reads
from hostbench.facts.nvml import Nvml, NvmlUnavailable, field_value, open_nvml
from hostbench.facts.record import Fact
from hostbench.facts.spec import LINK_BYTES

NVLINK_SENT_KIB = (138, 0xFFFFFFFF)
"""NVML's NVLINK_THROUGHPUT_DATA_TX: data without headers, by this scope of all links together."""


class LinkCounters:
    """Opened once per device; a refusal is remembered."""

    def __init__(self, uuid: str, library: Any = None) -> None:
        """`uuid` is the CUDA device's; `library` stands in for pynvml in tests."""
        self._why: str | None = None
        try:
            self._nvml: Nvml = open_nvml(library)
            self._index = self._nvml.index_of(uuid)
            if isinstance(self._index, Fact):
                self._why = self._index.why
        except NvmlUnavailable as error:
            self._why = str(error)

    def read(self) -> tuple[int, int]:
        """(into the GPU, out of it), bytes since some time. Raises Unavailable with the reason."""
        if self._why is not None:
            raise Unavailable(self._why)
        assert isinstance(self._index, int)
        reads = gpu_reads(self._nvml, self._index, [row.name for row in LINK_BYTES])
        for fact in reads.values():
            if not isinstance(fact.value, int):
                raise Unavailable(f"NVML fields 197 and 198: {fact.why}")
        into, out_of = (fact.value for fact in reads.values())
        assert isinstance(into, int) and isinstance(out_of, int)
        return into, out_of

    def sent(self) -> int:
        """Bytes out of the GPU since some time, over PCIe and, where NVML counts it, NVLink. Raises
        Unavailable with the reason."""
        _, over_pcie = self.read()
        assert isinstance(self._index, int)
        handle, library = self._nvml.handle(self._index), self._nvml.library
        over_nvlink = self._nvml.read(lambda: field_value(library, handle, NVLINK_SENT_KIB)).value
        return over_pcie + KIB * (over_nvlink if isinstance(over_nvlink, int) else 0)
