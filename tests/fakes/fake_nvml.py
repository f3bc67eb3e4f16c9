"""A pynvml that answers from tables, with the names and the habits of the real module: errors carry
`.value`, each field its own return code, an unknown GPU is an error."""

import ctypes
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from hostbench.facts.nvml import Field

INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 9, 12, 13, 15
REQUIRES_RESET, LIB_RM_VERSION_MISMATCH, UNKNOWN = 16, 18, 999
TX, RX = 197, 198
UNVERSIONED = ("nvmlDeviceGetComputeRunningProcesses",)
"""pynvml calls the newest version of these, and says so in its own way where there is none."""


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
        *(("dVal", ctypes.c_double), ("uiVal", ctypes.c_uint), ("ulVal", ctypes.c_ulong)),
        *(("ullVal", ctypes.c_ulonglong), ("sllVal", ctypes.c_longlong)),
        *(("siVal", ctypes.c_int), ("usVal", ctypes.c_ushort)),
    )


@dataclass(slots=True)
class Load:
    """What one GPU does now, and what has crossed its link."""

    busy: bool = False  # copies run: the link is awake, clocks are up
    into: int = 0  # bytes since the fake was made
    out_of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeGpu:
    """One GPU: an idle H200 in a full slot, unless told otherwise."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-00000000-1111-2222-3333-444444444444"
    mig_uuids: tuple[str, ...] = ()
    link: tuple[int, int] = (5, 16)  # generation and width, under load where it sleeps
    sleeping_link: tuple[int, int] | None = None
    max_link: tuple[int, int] = (5, 16)
    own_generation: int = 5  # in another slot
    nvlinks: int = 18
    nvlinks_up: int = 18
    c2c_mb_per_s: tuple[int, ...] = ()  # of each C2C link
    memory_bytes: int = 150_754_820_096
    nodes_mask: int = 0b1
    ecc: bool = True
    ecc_uncorrected: int = 0
    mig: bool = False
    virtualization: int = 0
    clocks_mhz: tuple[int, int] = (345, 3201)  # SM and memory, at rest
    throttle_bits: int = 0x1
    counter_bits: int = 64  # width of the byte counters: they wrap there
    field_values: dict[Any, int] = field(default_factory=dict)  # by id, or by id and scope
    field_errors: dict[Any, int] = field(default_factory=dict)  # return code by field id
    pids: tuple[int, ...] = ()  # compute processes on it
    errors: dict[str, int] = field(default_factory=dict)  # return code by function name
    lost: bool = False
    needs_reset: bool = False
    lost_after_bytes: float = math.inf  # so many have crossed its link

    has_c2c = property(lambda self: int(bool(self.c2c_mb_per_s)))

    def state(self, load: Load) -> int:
        """The return code of every call; 0 where it answers."""
        if self.needs_reset:
            return REQUIRES_RESET
        return GPU_IS_LOST if self.lost or load.into + load.out_of >= self.lost_after_bytes else 0

    def field(self, wanted: Field, load: Load) -> SimpleNamespace:
        """The answer for one field, with its own return code."""
        number, scope = wanted if isinstance(wanted, tuple) else (wanted, 0)
        code = self.field_errors.get(wanted, self.field_errors.get(number, 0))
        rates = dict(enumerate(self.c2c_mb_per_s))
        usual = {
            91: self.nvlinks,
            164: 26_562,
            170: len(rates),  # 164: MB/s of one link
            171: int(scope in rates),
            172: rates.get(scope, 0),
        }
        told = {**usual, **self.field_values}
        value = told.get(wanted, told.get(number, 0))
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
    errors: dict[str, int] = field(default_factory=dict)  # by function name, for all GPUs
    lacks: tuple[str, ...] = ()  # functions that this older nvidia-ml-py does not have
    hangs: str = ""  # a function that does not return before `hanging` ends
    hung: threading.Event = field(default_factory=threading.Event)  # set once it was called
    released: threading.Event = field(default_factory=threading.Event)
    opened: int = 0  # as often as it was initialised and not yet shut down
    loads: dict[int, Load] = field(default_factory=lambda: defaultdict(Load))  # by GPU
    NVMLError: type[NVMLError] = NVMLError
    NVMLLibraryMismatchError: type[NVMLLibraryMismatchError] = NVMLLibraryMismatchError
    nvmlMemory_v2: int = 0x02000028

    is_open = property(lambda self: self.opened > 0)

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
        return DEVICE[function](self.loads[handle], self.gpu(handle, function), *arguments)

    def gpu(self, handle: Any, function: str) -> FakeGpu:
        """The GPU, where that function is answered for it."""
        self._enter(function)
        if not 0 <= handle < len(self.gpus):
            raise NVMLError(NOT_FOUND)
        gpu: FakeGpu = self.gpus[handle]
        if code := gpu.state(self.loads[handle]):
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


def _handle(nvml: FakeNvml, index: int) -> int:
    nvml.gpu(index, "nvmlDeviceGetHandleByIndex")
    return index


def _link(load: Load, gpu: FakeGpu) -> tuple[int, int]:
    return gpu.link if load.busy or gpu.sleeping_link is None else gpu.sleeping_link


def _clock(load: Load, gpu: FakeGpu, clock: int) -> int:
    return ((1755, 3201) if load.busy else gpu.clocks_mhz)[clock == 2]


def _reasons(load: Load, gpu: FakeGpu) -> int:
    return gpu.throttle_bits & ~0x1 if load.busy else gpu.throttle_bits


def _processes(load: Load, gpu: FakeGpu) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid) for pid in gpu.pids]


def _nvlink(load: Load, gpu: FakeGpu, link: int) -> int:
    if link >= gpu.nvlinks:
        raise NVMLError(INVALID_ARGUMENT)
    return int(link < gpu.nvlinks_up)


def _mig_device(load: Load, gpu: FakeGpu, index: int) -> str:
    if index >= len(gpu.mig_uuids):
        raise NVMLError(NOT_FOUND)
    return gpu.mig_uuids[index]


DRIVER: dict[str, Callable[..., Any]] = {
    "nvmlShutdown": lambda n: setattr(n, "opened", n.opened - 1),
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
    "nvmlDeviceGetTemperatureV": lambda load, gpu, sensor: 44 if load.busy else 31,
    "nvmlDeviceGetTemperature": lambda load, gpu, sensor: 44 if load.busy else 31,
    "nvmlDeviceGetCurrentClocksEventReasons": _reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _reasons,
    "nvmlDeviceGetComputeRunningProcesses": _processes,
    "nvmlDeviceGetComputeRunningProcesses_v2": _processes,
    "nvmlDeviceGetFieldValues": lambda load, gpu, ids: [gpu.field(one, load) for one in ids],
    "nvmlDeviceGetC2cModeInfoV": lambda load, gpu: SimpleNamespace(isC2cEnabled=gpu.has_c2c),
    "nvmlDeviceGetNvLinkState": _nvlink,
    "nvmlDeviceGetMemoryAffinity": lambda load, gpu, size, scope: (ctypes.c_ulonglong * size)(
        gpu.nodes_mask
    ),
}
"""Functions of one GPU: its load, the GPU itself and the arguments after the handle in."""

MIG_UUID = "MIG-aaaaaaaa-1111-2222-3333-444444444444"
_NEWER = "TemperatureV CurrentClocksEventReasons MemoryInfo_v2 MemoryBusWidth GspFirmwareMode"
_VGPU_REFUSES = (
    "CurrPcieLinkGeneration CurrPcieLinkWidth MaxPcieLinkGeneration MaxPcieLinkWidth FieldValues "
    "GpuMaxPcieLinkGeneration NvLinkState MaxClockInfo EnforcedPowerLimit"
)
_MIG_FORBIDS = "MemoryInfo MemoryInfo_v2 ComputeRunningProcesses ComputeRunningProcesses_v2"


def _refusing(code: int, names: str, prefix: str = "nvmlDeviceGet") -> dict[str, int]:
    return {f"{prefix}{name}": code for name in names.split()}


_OLD_DRIVER = _refusing(FUNCTION_NOT_FOUND, f"{_NEWER} AddressingMode C2cModeInfoV")
_OLD_DRIVER |= _refusing(FUNCTION_NOT_FOUND, "NvlinkBwMode ConfComputeState", "nvmlSystemGet")
_VGPU = FakeGpu(
    name="NVIDIA A40-48Q", virtualization=2, errors=_refusing(NOT_SUPPORTED, _VGPU_REFUSES)
)
_SLICE = FakeGpu(
    name="NVIDIA A100-SXM4-80GB",
    mig=True,
    mig_uuids=(MIG_UUID,),
    link=(4, 16),
    max_link=(4, 16),
    own_generation=4,
    errors=_refusing(NO_PERMISSION, _MIG_FORBIDS),
    field_errors=dict.fromkeys((TX, RX), NOT_SUPPORTED),
)
_OF_MACHINES: dict[str, dict[str, Any]] = {
    "library_missing": {"gpus": (), "init_error": LIBRARY_NOT_FOUND},
    "no_permission": {"errors": _refusing(NO_PERMISSION, "HandleByIndex")},
    "old_driver": {"driver": "470.256.02", "cuda_driver": 11040, "errors": _OLD_DRIVER},
    "vgpu": {"gpus": (_VGPU,)},
    "mig_slice": {"gpus": (_SLICE,)},
    "lost_midway": {"gpus": (FakeGpu(lost_after_bytes=1 << 20),)},
    "needs_reset": {"gpus": (FakeGpu(needs_reset=True),)},
    "one_lost": {"gpus": (FakeGpu(uuid="GPU-0", lost=True), FakeGpu(uuid="GPU-1"))},
}
MACHINES = tuple(_OF_MACHINES)


def machine(name: str) -> FakeNvml:
    """NVML of one of MACHINES, which nobody here has."""
    return FakeNvml(**_OF_MACHINES[name])
