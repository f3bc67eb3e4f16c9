"""The GPU's own counters of the bytes on its links, read through NVML."""

from typing import Any

from hostbench.core.errors import Unavailable
from hostbench.core.units import KIB
from hostbench.facts.gpu import read_rows
from hostbench.facts.nvml import NvmlUnavailable, field_value, open_nvml
from hostbench.facts.spec import LINK_BYTES

NVLINK_SENT_KIB = (138, 0xFFFFFFFF)
"""NVML's NVLINK_THROUGHPUT_DATA_TX: data without headers, by this scope of all links together."""


class LinkCounters:
    """Opened once per device."""

    def __init__(self, uuid: str, library: Any = None) -> None:
        """`uuid` is the CUDA device's; `library` stands in for pynvml in tests. Raises Unavailable
        with the reason."""
        try:
            self._nvml = open_nvml(library)
            index = self._nvml.index_of(uuid)
        except NvmlUnavailable as error:
            raise Unavailable(str(error)) from error
        self._handle = self._nvml.ask("nvmlDeviceGetHandleByIndex", index)

    def read(self) -> tuple[int, int]:
        """(into the GPU, out of it), bytes since some time. Raises Unavailable with the reason."""
        counts = []
        for fact in read_rows(self._nvml, LINK_BYTES, self._handle).values():
            if not isinstance(fact.value, int):
                raise Unavailable(f"NVML fields 197 and 198: {fact.why}")
            counts.append(fact.value)
        into, out_of = counts
        return into, out_of

    def sent(self) -> int:
        """Bytes out of the GPU since some time, over PCIe and, where NVML counts it, NVLink. Raises
        Unavailable with the reason."""
        _, over_pcie = self.read()
        over_nvlink = self._nvml.ask(field_value, self._handle, NVLINK_SENT_KIB)
        return over_pcie + KIB * (over_nvlink if isinstance(over_nvlink, int) else 0)
