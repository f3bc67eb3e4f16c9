"""The GPU's own counters of the bytes on its PCIe link, read through NVML."""

from typing import Any

from hostbench.core.errors import Unavailable
from hostbench.facts.gpu import gpu_reads
from hostbench.facts.nvml import Nvml, NvmlUnavailable, open_nvml
from hostbench.facts.record import Fact
from hostbench.facts.spec import LINK_BYTES


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
