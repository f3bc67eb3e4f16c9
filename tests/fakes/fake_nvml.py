"""A pynvml that answers what it is told: for tests, and to see how hostbench treats a GPU.

It has the names and the habits of the real module: errors carry `.value`, each field its own return
code, an unknown GPU is an error.
"""

import ctypes
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from hostbench.facts.nvml import Field

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 3, 4, 9, 12
FUNCTION_NOT_FOUND, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH = 13, 15, 18
INVALID_ARGUMENT, NOT_FOUND = 2, 6
REQUIRES_RESET, UNKNOWN = 16, 999

UNVERSIONED = ("nvmlDeviceGetComputeRunningProcesses",)
"""pynvml calls the newest version of these, and says so in its own way where there is none."""

TX, RX = 197, 198


class NVMLError(Exception):
    """`value` is NVML's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML return code {value}")
        self.value = value


class NVMLLibraryMismatchError(Exception):
    """What pynvml raises for FUNCTION_NOT_FOUND in the calls of UNVERSIONED: no NVMLError."""


class Union(ctypes.Union):
    """c_nvmlValue_t."""

    _fields_ = (
        ("dVal", ctypes.c_double),
        ("uiVal", ctypes.c_uint),
        ("ulVal", ctypes.c_ulong),
        ("ullVal", ctypes.c_ulonglong),
        ("sllVal", ctypes.c_longlong),
        ("siVal", ctypes.c_int),
        ("usVal", ctypes.c_ushort),
    )


@dataclass(slots=True)
class Load:
    """What one GPU does now, and what has crossed its link."""

    busy: bool = False
    """Copies run: the link is awake, clocks are up."""
    into: int = 0
    out_of: int = 0
    """Bytes since the fake was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeGpu:
    """One GPU: an idle H200 in a full slot, unless told otherwise."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-00000000-1111-2222-3333-444444444444"
    mig_uuids: tuple[str, ...] = ()
    link: tuple[int, int] = (5, 16)
    """Generation and width now, or under load where `sleeping_link` says that it sleeps."""
    sleeping_link: tuple[int, int] | None = None
    max_link: tuple[int, int] = (5, 16)
    own_generation: int = 5
    """What it could do in another slot."""
    nvlinks: int = 18
    nvlinks_up: int = 18
    c2c_mb_per_s: tuple[int, ...] = ()
    """Of each C2C link."""
    memory_bytes: int = 150_754_820_096
    nodes_mask: int = 0b1
    ecc: bool = True
    ecc_uncorrected: int = 0
    mig: bool = False
    virtualization: int = 0
    clocks_mhz: tuple[int, int] = (345, 3201)
    """SM and memory, at rest."""
    throttle_bits: int = 0x1
    counter_bits: int = 64
    """Width of the byte counters: they wrap there."""
    field_values: dict[Any, int] = field(default_factory=dict)
    """By field id, or by field id and scope; a field that is not named is derived, or 0."""
    field_errors: dict[Any, int] = field(default_factory=dict)
    """Return code by field id."""
    pids: tuple[int, ...] = ()
    """Compute processes on it."""
    errors: dict[str, int] = field(default_factory=dict)
    """Return code by function name."""
    lost: bool = False
    needs_reset: bool = False
    lost_after_bytes: float = math.inf
    """It is lost once so many bytes have crossed its link."""

    def state(self, load: Load) -> int:
        """The return code of every call; 0 where it answers."""
        if self.needs_reset:
            return REQUIRES_RESET
        return GPU_IS_LOST if self.lost or load.into + load.out_of >= self.lost_after_bytes else 0

    def field(self, wanted: Field, load: Load) -> SimpleNamespace:
        """The answer for one field, with its own return code."""
        number, scope = wanted if isinstance(wanted, tuple) else (wanted, 0)
        code = self.field_errors.get(wanted, self.field_errors.get(number, 0))
        value = self.field_values.get(wanted, self.field_values.get(number))
        if value is None:
            is_link = scope < len(self.c2c_mb_per_s)
            value = {
                91: self.nvlinks,
                164: 26_562,  # MB/s of one link
                170: len(self.c2c_mb_per_s),
                171: int(is_link),
                172: self.c2c_mb_per_s[scope] if is_link else 0,
            }.get(number, 0)
        if number in (TX, RX):
            moved = load.into if number == RX else load.out_of
            value = (value + moved) % (1 << self.counter_bits)
        return SimpleNamespace(nvmlReturn=code, valueType=3, value=Union(ullVal=value))


@dataclass(slots=True, kw_only=True)
class FakeNvml:
    """Pass it where pynvml is expected; DRIVER and DEVICE hold its functions."""

    gpus: tuple[FakeGpu, ...] = (FakeGpu(),)
    driver: str = "580.95.05"
    cuda_driver: int = 13000
    confidential: bool = False
    init_error: int | None = None
    errors: dict[str, int] = field(default_factory=dict)
    """Return code by function name, for all GPUs."""
    lacks: tuple[str, ...] = ()
    """Functions that this older nvidia-ml-py does not have."""
    hangs: str = ""
    """A function that does not return before `hanging` ends."""
    hung: threading.Event = field(default_factory=threading.Event)
    """Set once it was called."""
    released: threading.Event = field(default_factory=threading.Event)
    opened: int = 0
    """As often as it was initialised and not yet shut down."""
    loads: dict[int, Load] = field(default_factory=lambda: defaultdict(Load))
    """By the GPU's number."""
    are_lost: Callable[[], bool] = lambda: False
    """Whether all GPUs have been lost, as another process can tell."""
    copies_elsewhere: Callable[[int], bool] = lambda gpu: False
    """Whether another process copies over that GPU's link now."""
    NVMLError: type[NVMLError] = NVMLError
    NVMLLibraryMismatchError: type[NVMLLibraryMismatchError] = NVMLLibraryMismatchError
    nvmlMemory_v2: int = 0x02000028

    @property
    def is_open(self) -> bool:
        return self.opened > 0

    def copy(self, into: int = 0, out_of: int = 0, gpu: int = 0) -> None:
        """As if copies of so many bytes over that GPU's link ran now, until `rest`."""
        load = self.loads[gpu]
        load.busy, load.into, load.out_of = True, load.into + into, load.out_of + out_of

    def rest(self) -> None:
        """No GPU copies any more."""
        for load in self.loads.values():
            load.busy = False

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """At the end the threads that hang go on: none outlives a test."""
        try:
            yield
        finally:
            self.released.set()

    def nvmlInit(self) -> None:
        self._hang("nvmlInit")
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.opened += 1

    def __getattr__(self, function: str) -> Any:
        """Of an NVML function: what the table says, after the errors that were asked for."""
        if function in self.lacks or function not in {**DRIVER, **DEVICE}:
            raise AttributeError(f"module 'pynvml' has no attribute {function!r}")
        return partial(self._driver if function in DRIVER else self._device, function)

    def _driver(self, function: str, *arguments: Any) -> Any:
        self._enter(function)
        return DRIVER[function](self, *arguments)

    def _device(self, function: str, handle: Any, *arguments: Any) -> Any:
        if function == "nvmlDeviceGetMemoryInfo" and arguments:
            self.gpu(handle, f"{function}_v2")  # a function of its own in the driver
        if isinstance(handle, str):  # a MIG device's handle is its UUID here
            if function != "nvmlDeviceGetUUID":
                raise NVMLError(NOT_SUPPORTED)
            return handle
        gpu, load = self.gpu(handle, function), self.loads[handle]
        if self.copies_elsewhere(handle):
            load = replace(load, busy=True)
        return DEVICE[function](load, gpu, *arguments)

    def gpu(self, handle: Any, function: str) -> FakeGpu:
        """The GPU, where that function is answered for it."""
        self._enter(function)
        if not 0 <= handle < len(self.gpus):
            raise NVMLError(NOT_FOUND)
        gpu: FakeGpu = self.gpus[handle]
        if code := GPU_IS_LOST if self.are_lost() else gpu.state(self.loads[handle]):
            raise NVMLError(code)
        if function in gpu.errors:
            raise _error(function, gpu.errors[function])
        return gpu

    def _hang(self, function: str) -> None:
        if function == self.hangs:
            self.hung.set()
            self.released.wait()

    def _enter(self, function: str) -> None:
        self._hang(function)
        if not self.opened:
            raise NVMLError(1)
        if function in self.errors:
            raise _error(function, self.errors[function])


def _error(function: str, code: int) -> Exception:
    if code == FUNCTION_NOT_FOUND and function in UNVERSIONED:
        return NVMLLibraryMismatchError(function)
    return NVMLError(code)


def _shut_down(nvml: FakeNvml) -> None:
    nvml.opened -= 1


def _handle(nvml: FakeNvml, index: int) -> int:
    nvml.gpu(index, "nvmlDeviceGetHandleByIndex")
    return index


def _link(load: Load, gpu: FakeGpu) -> tuple[int, int]:
    return gpu.link if load.busy or gpu.sleeping_link is None else gpu.sleeping_link


def _temperature(load: Load, gpu: FakeGpu, sensor: int) -> int:
    return 44 if load.busy else 31


def _clock(load: Load, gpu: FakeGpu, clock: int) -> int:
    return ((1755, 3201) if load.busy else gpu.clocks_mhz)[clock == 2]


def _reasons(load: Load, gpu: FakeGpu) -> int:
    return gpu.throttle_bits & ~0x1 if load.busy else gpu.throttle_bits


def _processes(load: Load, gpu: FakeGpu) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid) for pid in gpu.pids]


def _fields(load: Load, gpu: FakeGpu, fields: list[Field]) -> list[SimpleNamespace]:
    return [gpu.field(each, load) for each in fields]


def _nvlink(load: Load, gpu: FakeGpu, link: int) -> int:
    if link >= gpu.nvlinks:
        raise NVMLError(INVALID_ARGUMENT)
    return int(link < gpu.nvlinks_up)


def _mig_device(load: Load, gpu: FakeGpu, index: int) -> str:
    if index >= len(gpu.mig_uuids):
        raise NVMLError(NOT_FOUND)
    return gpu.mig_uuids[index]


DRIVER: dict[str, Callable[..., Any]] = {
    "nvmlShutdown": _shut_down,
    "nvmlDeviceGetCount": lambda n: len(n.gpus),
    "nvmlDeviceGetHandleByIndex": _handle,
    "nvmlSystemGetDriverVersion": lambda n: n.driver,
    "nvmlSystemGetCudaDriverVersion_v2": lambda n: n.cuda_driver,
    "nvmlSystemGetNvlinkBwMode": lambda n: 0,
    "nvmlSystemGetConfComputeState": lambda n: SimpleNamespace(ccFeature=int(n.confidential)),
}
"""The driver's functions: the fake and the other arguments in."""

DEVICE: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetName": lambda load, gpu: gpu.name,
    "nvmlDeviceGetUUID": lambda load, gpu: gpu.uuid,
    "nvmlDeviceGetPciInfo": lambda load, gpu: SimpleNamespace(busId="00000000:18:00.0"),
    "nvmlDeviceGetVbiosVersion": lambda load, gpu: "96.00.A5.00.01",
    "nvmlDeviceGetMemoryInfo": lambda load, gpu, version=0: SimpleNamespace(total=gpu.memory_bytes),
    "nvmlDeviceGetMemoryBusWidth": lambda load, gpu: 6144,
    "nvmlDeviceGetMaxClockInfo": lambda load, gpu, clock: (1980, 3201)[clock == 2],
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda load, gpu: _link(load, gpu)[0],
    "nvmlDeviceGetCurrPcieLinkWidth": lambda load, gpu: _link(load, gpu)[1],
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda load, gpu: gpu.max_link[0],
    "nvmlDeviceGetMaxPcieLinkWidth": lambda load, gpu: gpu.max_link[1],
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": lambda load, gpu: gpu.own_generation,
    "nvmlDeviceGetVirtualizationMode": lambda load, gpu: gpu.virtualization,
    "nvmlDeviceGetMigMode": lambda load, gpu: [int(gpu.mig)] * 2,
    "nvmlDeviceGetMaxMigDeviceCount": lambda load, gpu: 7 if gpu.mig else 0,
    "nvmlDeviceGetMigDeviceHandleByIndex": _mig_device,
    "nvmlDeviceGetPersistenceMode": lambda load, gpu: 1,
    "nvmlDeviceGetGspFirmwareMode": lambda load, gpu: [1, 1],
    "nvmlDeviceGetAddressingMode": lambda load, gpu: 1,
    "nvmlDeviceGetEccMode": lambda load, gpu: [int(gpu.ecc)] * 2,
    "nvmlDeviceGetTotalEccErrors": lambda load, gpu, kind, counter: gpu.ecc_uncorrected,
    "nvmlDeviceGetEnforcedPowerLimit": lambda load, gpu: 700_000,
    "nvmlDeviceGetTemperatureV": _temperature,
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetCurrentClocksEventReasons": _reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _reasons,
    "nvmlDeviceGetComputeRunningProcesses": _processes,
    "nvmlDeviceGetComputeRunningProcesses_v2": _processes,
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetC2cModeInfoV": lambda load, gpu: SimpleNamespace(
        isC2cEnabled=int(bool(gpu.c2c_mb_per_s))
    ),
    "nvmlDeviceGetNvLinkState": _nvlink,
    "nvmlDeviceGetMemoryAffinity": lambda load, gpu, size, scope: (ctypes.c_ulonglong * size)(
        gpu.nodes_mask
    ),
}
"""Functions of one GPU: its load, the GPU itself and the arguments after the handle in."""
