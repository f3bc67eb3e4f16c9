"""NVML: the sole owner of pynvml, which is imported only by `open_nvml`.

Every call answers with a Fact: what this GPU, driver or VM refuses is unknown with the reason. A
call never returns where the driver is stuck: whoever cannot wait for ever asks `within_patience`.
"""

import ctypes
import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from hostbench.facts.record import Fact, Value, known, unknown

INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND = 2, 3, 13
VERSION_MISMATCH, DEPRECATED = 25, 26

_REASONS = {
    1: "NVML is not initialised",
    INVALID_ARGUMENT: "NVML does not know this argument for this GPU",
    NOT_SUPPORTED: "not supported by this GPU or VM",
    4: "no permission: run as root, or ask the administrator",
    6: "NVML found none",
    9: "the NVIDIA driver is not loaded: run nvidia-smi as root or load the kernel module",
    10: "NVML timed out",
    12: "libnvidia-ml.so.1 is missing: install the NVIDIA driver, or start the container with GPUs "
    "and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    FUNCTION_NOT_FOUND: "this driver is too old for it: upgrade the driver",
    15: "the GPU is lost: reset it or restart the machine, and look at `dmesg`",
    16: "the GPU needs a reset: `nvidia-smi --gpu-reset` while nothing uses it, or restart the "
    "machine",
    18: "driver and NVML library differ in version: restart the machine after the driver upgrade",
    22: "a vGPU does not tell",
    VERSION_MISMATCH: "this driver does not know this version of the call: upgrade the driver",
    DEPRECATED: "this driver no longer answers it",
    999: "NVML fails without a reason: in a container, start it again, as systemd's daemon-reload "
    "takes its GPUs away; else look at `dmesg`",
}
_REFUSALS = {INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH, DEPRECATED}
"""Another call for the same fact may answer. Every other code is the GPU's or NVML's state."""
PATIENCE_S = 30.0
"""For all that is asked at once: a GPU that nobody uses takes a second or two to wake."""
STUCK = f"NVML did not answer within {PATIENCE_S:g} s: look at `dmesg`"

T = TypeVar("T")

_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The union member of each NVML_VALUE_TYPE."""


Field = int | tuple[int, int]
"""A field id, or a field id with its scope (most often a link)."""


class NvmlUnavailable(Exception):
    """NVML cannot be opened, or hangs; the text is the reason with its remedy."""


def is_stuck(thread: Thread) -> bool:
    """Wait for a thread that asks NVML, so that no process that is forked later knows of it."""
    thread.join(PATIENCE_S)
    return thread.is_alive()


def within_patience(ask: Callable[[], T]) -> T:
    """What `ask` answers; it is left behind in a thread where that takes too long. Raises
    NvmlUnavailable then."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    thread = Thread(target=work, name="hostbench-nvml", daemon=True)
    thread.start()
    if is_stuck(thread):
        raise NvmlUnavailable(STUCK)
    return answer.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvml:
    """An initialised NVML. `library` is pynvml, or a stand-in with its functions."""

    library: Any

    def close(self) -> None:
        self.read(lambda: self.library.nvmlShutdown() or True)

    def read(self, *calls: Callable[[], Value]) -> Fact:
        """The first call that GPU, driver and pynvml answer; the last refusal is the reason."""
        fact = unknown("nothing to call")
        for call in calls:
            try:
                value: Any = call()
            except Exception as error:
                fact = unknown(self.reason(error))
                if not self._refuses(error):
                    return fact
            else:
                return _plain(value)
        return fact

    def reason(self, error: Exception) -> str:
        """Why a call failed, in words. Raises the error again when it is not NVML's or ctypes'."""
        if isinstance(error, NvmlUnavailable):
            return str(error)
        if isinstance(error, self.library.NVMLError):
            code = int(getattr(error, "value", -1))
            return _REASONS.get(code, f"NVML error {code} ({error})")
        if self._is_mismatch(error):
            return _REASONS[FUNCTION_NOT_FOUND]
        if isinstance(error, AttributeError):
            return "this nvidia-ml-py lacks the call: upgrade nvidia-ml-py"
        if isinstance(error, ctypes.ArgumentError | ValueError | TypeError):
            return f"nvidia-ml-py refuses its own argument: {error}"
        raise error

    def num_gpus(self) -> Fact:
        """GPUs that the driver shows."""
        return self.read(lambda: self.library.nvmlDeviceGetCount())

    def count(self) -> int:
        """The same; 0 where it cannot be told."""
        value = self.num_gpus().value
        return value if isinstance(value, int) else 0

    def handle(self, index: int) -> Any | Fact:
        """The GPU's handle, or the unknown Fact that says why there is none."""
        try:
            return self.library.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            return unknown(self.reason(error))

    def owners(self) -> dict[str, int]:
        """NVML's index by the bare UUID of each GPU and of each of its MIG devices."""
        return {bare(str(fact)): index for index, fact in self._uuids() if fact.why is None}

    def index_of(self, uuid: str) -> int | Fact:
        """NVML's index of the CUDA device with that UUID (torch leaves out the `GPU-` prefix), or
        the unknown Fact that says why it is not found."""
        none = unknown("NVML shows no GPU with this UUID (MIG?)")
        for index, fact in self._uuids():
            if fact.why is None and bare(str(fact)) == bare(uuid):
                return index
            none = none if fact.why is None else fact
        return none

    def _uuids(self) -> Iterator[tuple[int, Fact]]:
        """The index and the UUID of each GPU and of each of its MIG devices; unknown where it is
        refused."""
        count = self.num_gpus()
        if not isinstance(count.value, int):
            yield 0, count
            return
        for index in range(count.value):
            handle = self.handle(index)
            if isinstance(handle, Fact):
                yield index, handle
                continue
            for device in (handle, *self._mig_devices(handle)):
                yield index, self.read(partial(self.library.nvmlDeviceGetUUID, device))

    def num_mig_devices(self, handle: Any) -> Fact:
        most = self.read(lambda: self.library.nvmlDeviceGetMaxMigDeviceCount(handle))
        return most if most.value is None else known(len(self._mig_devices(handle)))

    def _mig_devices(self, handle: Any) -> list[Any]:
        """Handles of a GPU's MIG devices; none where MIG is off or not known."""
        library = self.library
        devices = []
        count = self.read(lambda: library.nvmlDeviceGetMaxMigDeviceCount(handle)).value
        for index in range(count if isinstance(count, int) else 0):
            try:
                devices.append(library.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
            except Exception as error:
                self.reason(error)  # not one of NVML's is raised again
        return devices

    def _refuses(self, error: Exception) -> bool:
        return (
            isinstance(error, AttributeError | TypeError)
            or self._is_mismatch(error)
            or getattr(error, "value", None) in _REFUSALS
        )

    def _is_mismatch(self, error: Exception) -> bool:
        """What pynvml makes of FUNCTION_NOT_FOUND in some calls; it is no NVMLError."""
        mismatch = getattr(self.library, "NVMLLibraryMismatchError", None)
        return mismatch is not None and isinstance(error, mismatch)


def field_value(library: Any, handle: Any, field: Field) -> Value:
    """One field. Raises the library's NVMLError where the field answers with one."""
    (answer,) = library.nvmlDeviceGetFieldValues(handle, [field])
    if answer.nvmlReturn != 0:
        raise library.NVMLError(int(answer.nvmlReturn))
    if not 0 <= answer.valueType < len(_MEMBERS):
        raise ValueError(f"NVML answered with the unknown value type {answer.valueType}")
    value: Value = getattr(answer.value, _MEMBERS[answer.valueType])
    return value


def bare(uuid: str) -> str:
    """A UUID as torch writes it: without `GPU-` or `MIG-`."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def _plain(value: Any) -> Fact:
    """What some calls answer as bytes is text."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if value is None or value == "":
        return unknown("NVML answered nothing")
    if isinstance(value, str | int | float):
        return known(value)
    return unknown(f"NVML answered with a {type(value).__name__}, which is no plain value")


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
