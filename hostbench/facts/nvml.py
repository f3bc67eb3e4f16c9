"""NVML: the sole owner of pynvml, which is imported only by `open_nvml`.

Every call answers with a Fact: what this GPU, driver or VM refuses is unknown with the reason. A
call never returns where the driver is stuck: whoever cannot wait for ever asks by `asking`.
"""

import hashlib
import importlib
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from hostbench.facts.host import read_int
from hostbench.facts.record import NO_VALUE, Unknown

T = TypeVar("T")
Call = str | Callable[..., Any]
"""A function of NVML by its name, or one that takes pynvml and the other arguments."""
Field = int | tuple[int, int]
"""A field id, or a field id with its scope (most often a link)."""
PCIE_OUT, PCIE_IN = 197, 198
"""Bytes that have left the GPU over PCIe, and that have come to it."""

_REASONS = {
    3: "not supported by this GPU or VM",
    4: "no permission: run as root, or ask the administrator",
    9: "the NVIDIA driver is not loaded: run nvidia-smi as root or load the kernel module",
    12: "libnvidia-ml.so.1 is missing: install the NVIDIA driver, or start the container with GPUs "
    "and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    13: "this driver is too old for it: upgrade the driver",
    15: "the GPU is lost: reset it or restart the machine, and look at `dmesg`",
    16: "the GPU needs a reset: `nvidia-smi --gpu-reset` while nothing uses it, or restart the "
    "machine",
    18: "driver and NVML library differ in version: restart the machine after the driver upgrade",
    999: "NVML fails without a reason: in a container, start it again, as systemd's daemon-reload "
    "takes its GPUs away; else look at `dmesg`",
}
"""By NVML's return code, where its own words do not say what to do."""
PATIENCE_S = 30.0
"""For all that is asked at once: a GPU that nobody uses takes a second or two to wake."""
STUCK = f"NVML did not answer within {PATIENCE_S:g} s: look at `dmesg`"


class NvmlUnavailable(Exception):
    """NVML cannot be opened, or hangs; the text is the reason with its remedy."""


def asking(ask: "Callable[[Nvml], T]", library: Any) -> Callable[[], T]:
    """Have NVML asked from now on, in a thread that is left behind where that never ends; `library`
    stands in for pynvml. What is returned waits for the answer: it raises what `ask` raises, and
    NvmlUnavailable where NVML cannot be opened or takes too long. No process that is forked later
    knows of a thread that ended."""
    result = Future[T]()

    def run() -> None:
        try:
            result.set_result(ask(open_nvml(library)))
        except BaseException as error:
            result.set_exception(error)

    thread = Thread(target=run, name="hostbench-nvml", daemon=True)
    thread.start()

    def answer() -> T:
        thread.join(PATIENCE_S)
        if thread.is_alive():
            raise NvmlUnavailable(STUCK)
        return result.result()

    return answer


@cache
def open_nvml(library: Any = None) -> "Nvml":
    """NVML, initialised once for this process: closed and opened again, GPUs without persistence
    mode would go to sleep in between. Raises NvmlUnavailable with the reason and its remedy."""
    try:
        nvml = Nvml(library=library or importlib.import_module("pynvml"))
    except ImportError:
        why = "nvidia-ml-py is not installed: pip install nvidia-ml-py"
        raise NvmlUnavailable(why) from None
    try:
        nvml.library.nvmlInit()
    except Exception as error:
        raise NvmlUnavailable(nvml.reason(error)) from error
    return nvml


os.register_at_fork(after_in_child=open_nvml.cache_clear)  # a child opens its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvml:
    """An initialised NVML. `library` is pynvml, or a stand-in with its functions."""

    library: Any

    def ask(self, call: Call, *arguments: Any) -> Any:
        """What that call answers, or the Unknown that says why it does not."""
        try:
            if isinstance(call, str):
                answer = getattr(self.library, call)(*arguments)
            else:
                answer = call(self.library, *arguments)
        except Exception as error:
            return Unknown(self.reason(error))
        return NO_VALUE if answer in (None, "") else answer

    def reason(self, error: Exception) -> str:
        """Why a call failed, in words. What pynvml makes of a driver that lacks the newest version
        of a call, and of a call that it lacks itself, is no NVMLError."""
        if isinstance(error, self.library.NVMLError):
            return _REASONS.get(int(getattr(error, "value", -1)), f"NVML: {error}")
        return f"driver and nvidia-ml-py do not fit: {type(error).__name__}: {error}"

    def handles(self) -> list[Any]:
        """Of each GPU that the driver shows the handle, or the Unknown that says why there is
        none. Raises NvmlUnavailable where they are not counted."""
        count = self.ask("nvmlDeviceGetCount")
        if isinstance(count, Unknown):
            raise NvmlUnavailable(count.why)
        return [self.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]

    def index_by_uuid(self) -> dict[str, int]:
        """By its UUID, as torch writes it, the index of each GPU that tells it, and of the GPU of
        each MIG device. Raises NvmlUnavailable as `handles` does."""
        indices = dict[str, int]()
        for index, gpu in enumerate(self.handles()):
            most = self.ask("nvmlDeviceGetMaxMigDeviceCount", gpu)
            slots = range(0 if isinstance(most, Unknown) else most)
            slices = [self.ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu, slot) for slot in slots]
            for device in (gpu, *slices):
                uuid = self.ask("nvmlDeviceGetUUID", device)
                if isinstance(uuid, str):
                    indices[bare(uuid)] = index
        return indices

    def index_of(self, uuid: str) -> int:
        """NVML's index of the CUDA device with that UUID. Raises NvmlUnavailable."""
        index = self.index_by_uuid().get(bare(uuid))
        if index is None:
            raise NvmlUnavailable("NVML tells no GPU's UUID that is this one")
        return index


def bare(uuid: str) -> str:
    """A UUID as torch writes it: without `GPU-` or `MIG-`."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def hash_uuid(uuid: str) -> str:
    """What is stored of a GPU's UUID: enough to tell two GPUs apart, not to find one."""
    return hashlib.sha256(bare(uuid).encode()).hexdigest()[:16]


# ---- readers of more than one call, or in words: pynvml and a handle in -------------------------

_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The union member of each NVML_VALUE_TYPE."""
_NVLINK_SPEED, _C2C_COUNT, _C2C_STATUS, _C2C_MAX = 164, 170, 171, 172
_MAX_NVLINKS = 36
PCI_DEVICES = Path("/sys/bus/pci/devices")

_THROTTLE_WORDS = (
    "idle application-clocks power-cap hardware-slowdown sync-boost software-thermal "
    "hardware-thermal power-brake display-clocks board-limit reliability"
).split()
"""NVML's reasons for clocks below the maximum, by the number of their bit."""
HARMLESS = frozenset({"none", "idle", "application-clocks", "display-clocks"})
"""Reasons that slow nothing down."""


def throttle_words(bits: int) -> str:
    """The set bits in words, joined by commas; "none" for no bit."""
    words = [word for number, word in enumerate(_THROTTLE_WORDS) if bits >> number & 1]
    rest = bits >> len(_THROTTLE_WORDS) << len(_THROTTLE_WORDS)
    return ",".join([*words, f"unknown-{rest:#x}"] if rest else words) or "none"


def slowing(reasons: Any) -> list[str]:
    """Of such words those that slow the GPU down."""
    return [word for word in str(reasons).split(",") if word not in HARMLESS]


def switch(state: int) -> str:
    return "on" if state else "off"


def field_value(library: Any, handle: Any, field: Field) -> int:
    """One field, a whole number. Raises the library's NVMLError that it answers with."""
    (answer,) = library.nvmlDeviceGetFieldValues(handle, [field])
    if answer.nvmlReturn != 0:
        raise library.NVMLError(int(answer.nvmlReturn))
    return int(getattr(answer.value, _MEMBERS[answer.valueType]))


def slot(library: Any, handle: Any, name: str) -> int | None:
    """What sysfs has of the GPU's slot in the file of that name; None where that says nothing. NVML
    writes the address as `00000000:18:00.0`."""
    domain, _, rest = library.nvmlDeviceGetPciInfo(handle).busId.lower().partition(":")
    return read_int(PCI_DEVICES / f"{int(domain, 16):04x}:{rest}" / name)


def num_other(library: Any, handle: Any) -> int:
    """How many of the processes on a GPU are not ours."""
    processes = library.nvmlDeviceGetComputeRunningProcesses(handle)
    return sum(process.pid != os.getpid() for process in processes)


def nvlinks(library: Any, handle: Any) -> list[int]:
    """Numbers of the NVLinks that are up."""
    links = []
    for link in range(_MAX_NVLINKS):
        try:
            if library.nvmlDeviceGetNvLinkState(handle, link):
                links.append(link)
        except library.NVMLError:
            if link == 0:
                raise
            break  # past the last link
    return links


def nvlink_mb_per_s(library: Any, handle: Any) -> float | None:
    """Of all active NVLinks together, in one direction."""
    fields = [(_NVLINK_SPEED, link) for link in nvlinks(library, handle)]
    return sum(field_value(library, handle, field) for field in fields) or None


def c2c_mb_per_s(library: Any, handle: Any) -> float | None:
    """Of Grace's links to the CPU: where they are, PCIe is not the way to the host."""
    links = range(field_value(library, handle, _C2C_COUNT))
    active = [link for link in links if field_value(library, handle, (_C2C_STATUS, link))]
    return sum(field_value(library, handle, (_C2C_MAX, link)) for link in active) or None
