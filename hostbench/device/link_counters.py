"""The GPU's own counters of the bytes on its PCIe link, read through NVML."""

from typing import Any

from hostbench.core.errors import Unavailable
from hostbench.facts.gpu import FIELDS
from hostbench.facts.nvml import Nvml, NvmlUnavailable, open_nvml
from hostbench.facts.record import Fact

_INTO, _OUT_OF = "pcie_rx_total_bytes", "pcie_tx_total_bytes"


class LinkCounters:
    """Opened once per device; a refusal is remembered."""

    def __init__(self, uuid: str, library: Any = None) -> None:
        """`uuid` is the CUDA device's; `library` stands in for pynvml in tests."""
        self._why: str | None = None
        try:
            self._nvml: Nvml = open_nvml(library)
            index = self._nvml.index_of(uuid)
            self._handle = None if index is None else self._nvml.handle(index)
            if self._handle is None or isinstance(self._handle, Fact):
                self._why = "NVML shows no GPU with this UUID (MIG?)"
        except NvmlUnavailable as error:
            self._why = str(error)

    def read(self) -> tuple[int, int]:
        """(into the GPU, out of it), bytes since some time. Raises Unavailable with the reason."""
        if self._why is not None:
            raise Unavailable(self._why)
        ids = {name: FIELDS[name] for name in (_INTO, _OUT_OF)}
        found = self._nvml.fields(self._handle, ids)
        for fact in found.values():
            if not isinstance(fact.value, int):
                raise Unavailable(f"NVML fields 197 and 198: {fact.why}")
        into, out_of = (found[name].value for name in (_INTO, _OUT_OF))
        assert isinstance(into, int) and isinstance(out_of, int)
        return into, out_of
