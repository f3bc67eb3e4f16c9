"""NVML: the sole owner of pynvml, which is imported only by `open_nvml`.

Every call answers with a Fact: what this GPU, driver or VM refuses is unknown with the reason.
"""

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hostbench.facts.record import Fact, Group, Value, known, unknown

NOT_SUPPORTED, FUNCTION_NOT_FOUND = 3, 13
_P2P_READ = 0
"""Not pynvml.NVML_P2P_CAPS_INDEX_READ: that is the tuple (0,) by mistake, which ctypes refuses."""

_REASONS = {
    1: "NVML is not initialised",
    NOT_SUPPORTED: "not supported by this GPU or VM",
    4: "no permission: run as root, or ask the administrator",
    9: "the NVIDIA driver is not loaded: run nvidia-smi as root or load the kernel module",
    10: "NVML timed out",
    12: "libnvidia-ml.so.1 is missing: install the NVIDIA driver, or start the container with GPUs",
    FUNCTION_NOT_FOUND: "this driver is too old for it: upgrade the driver",
    15: "the GPU is lost: reset it or restart the machine, and look at `dmesg`",
    16: "the GPU needs a reset",
    18: "driver and NVML library differ in version: restart the machine after the driver upgrade",
    22: "a vGPU does not tell",
    25: "this driver does not know this version of the call: upgrade the driver",
    26: "this driver no longer answers it",
}
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The union member of each NVML_VALUE_TYPE."""


class NvmlUnavailable(Exception):
    """NVML cannot be opened; the text is the reason with its remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvml:
    """An initialised NVML. `library` is pynvml, or a stand-in with its functions."""

    library: Any

    def close(self) -> None:
        self.read(lambda: self.library.nvmlShutdown() or True)

    def read(self, *calls: Callable[[], Value]) -> Fact:
        """The first call that this driver and this pynvml know; its refusal is a reason."""
        fact = unknown("nothing to call")
        for call in calls:
            try:
                value = call()
            except Exception as error:
                fact = unknown(self.reason(error))
                if not self._lacks_function(error):
                    return fact
            else:
                return unknown("NVML answered nothing") if value is None else known(value)
        return fact

    def reason(self, error: Exception) -> str:
        """Why a call failed, in words. Raises the error again when it is not NVML's or ctypes'."""
        if isinstance(error, self.library.NVMLError):
            code = int(getattr(error, "value", -1))
            return _REASONS.get(code, f"NVML error {code}: {error}")
        if isinstance(error, AttributeError):
            return "this nvidia-ml-py lacks the call: upgrade nvidia-ml-py"
        if isinstance(error, ctypes.ArgumentError | ValueError | TypeError):
            return f"nvidia-ml-py refuses its own argument: {error}"
        raise error

    def count(self) -> int:
        """GPUs that the driver shows; 0 where it cannot be told."""
        value = self.read(lambda: self.library.nvmlDeviceGetCount()).value
        return value if isinstance(value, int) else 0

    def handle(self, index: int) -> Any | Fact:
        """The GPU's handle, or the unknown Fact that says why there is none."""
        try:
            return self.library.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            return unknown(self.reason(error))

    def index_of(self, uuid: str) -> int | None:
        """NVML's index of the CUDA device with that UUID (torch leaves out the `GPU-` prefix)."""
        for index in range(self.count()):
            handle = self.handle(index)
            if isinstance(handle, Fact):
                continue
            found = self.read(partial(self.library.nvmlDeviceGetUUID, handle))
            if str(found.value).removeprefix("GPU-") == uuid.removeprefix("GPU-"):
                return index
        return None

    def can_read_peer(self, reader: int, owner: int) -> Fact:
        """Whether one GPU can read the other's memory directly."""
        a, b = self.handle(reader), self.handle(owner)
        for handle in (a, b):
            if isinstance(handle, Fact):
                return handle
        return self.read(lambda: self.library.nvmlDeviceGetP2PStatus(a, b, _P2P_READ) == 0)

    def fields(self, handle: Any, ids: dict[str, int]) -> Group:
        """Field values by name. One failed field fails alone: each has its own return code."""
        try:
            answers = self.library.nvmlDeviceGetFieldValues(handle, list(ids.values()))
        except Exception as error:
            why = self.reason(error)
            return {name: unknown(why) for name in ids}
        return {name: self._field(answer) for name, answer in zip(ids, answers, strict=True)}

    def _field(self, answer: Any) -> Fact:
        if answer.nvmlReturn != 0:
            code = int(answer.nvmlReturn)
            return unknown(_REASONS.get(code, f"NVML error {code}"))
        if not 0 <= answer.valueType < len(_MEMBERS):
            return unknown(f"NVML answered with the unknown value type {answer.valueType}")
        return self.read(lambda: getattr(answer.value, _MEMBERS[answer.valueType]))

    def _lacks_function(self, error: Exception) -> bool:
        return (
            isinstance(error, AttributeError) or getattr(error, "value", None) == FUNCTION_NOT_FOUND
        )


def open_nvml(library: Any = None) -> Nvml:
    """Initialise NVML; close it again. Raises NvmlUnavailable with the reason and its remedy."""
    if library is None:
        try:
            library = importlib.import_module("pynvml")
        except ImportError:
            why = "nvidia-ml-py is not installed: pip install nvidia-ml-py"
            raise NvmlUnavailable(why) from None
    nvml = Nvml(library=library)
    try:
        library.nvmlInit()
    except Exception as error:
        raise NvmlUnavailable(nvml.reason(error)) from error
    return nvml
