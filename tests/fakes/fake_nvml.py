"""A pynvml that answers from tables, with the names and the habits of the real module: errors carry
`.value`, each field its own return code, an unknown GPU is an error."""

import ctypes
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

from hostbench.facts import watch
from hostbench.facts.nvml import Field
from hostbench.facts.record import Facts

T = TypeVar("T")

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, REQUIRES_RESET, UNKNOWN = 12, 13, 15, 16, 999
TX, RX = 197, 198


class NVMLError(Exception):
    """`value` is NVML's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


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
    nvlinks: int = 18
    nvlinks_up: int = 18
    c2c_links: int = 0
    mig: bool = False
    clocks_mhz: tuple[int, int] = (345, 3201)  # SM and memory, at rest
    throttle_bits: int = 0x1
    counter_bits: int = 64  # width of the byte counters: they wrap there
    field_values: dict[int, int] = field(default_factory=dict)
    field_errors: dict[int, int] = field(default_factory=dict)  # return code by field id
    pids: tuple[int, ...] = ()  # compute processes on it
    errors: dict[str, Any] = field(default_factory=dict)  # return code or error, by function
    broken: int = 0  # the return code of every call
    lost_after_bytes: float = math.inf  # so many have crossed its link

    def field(self, wanted: Field, load: Load) -> SimpleNamespace:
        """The answer for one field, with its own return code."""
        number = wanted[0] if isinstance(wanted, tuple) else wanted
        nvlink = {164: 26_562}  # MB/s of one
        c2c = {170: self.c2c_links, 171: 1, 172: 45_000}  # how many; of one: is it up, and MB/s
        value = {**nvlink, **c2c, **self.field_values}.get(number, 0)
        if number in (TX, RX):
            moved = load.into if number == RX else load.out_of
            value = (value + moved) % (1 << self.counter_bits)
        code = self.field_errors.get(number, 0)
        return SimpleNamespace(nvmlReturn=code, valueType=3, value=Union(ullVal=value))


@dataclass(slots=True, kw_only=True, eq=False)
class FakeNvml:
    """Pass it where pynvml is expected; DRIVER and DEVICE hold its functions."""

    gpus: tuple[FakeGpu, ...] = (FakeGpu(),)
    driver: str = "580.95.05"
    cuda_driver: int = 13000
    confidential: bool = False
    init_error: int | None = None
    hangs: str = ""  # a function that does not return before `released` is set
    hung: threading.Event = field(default_factory=threading.Event)  # set once it was called
    released: threading.Event = field(default_factory=threading.Event)
    asked: Counter[str] = field(default_factory=Counter)  # how often, by function
    opened: int = 0  # as often as it was initialised
    loads: dict[int, Load] = field(default_factory=lambda: defaultdict(Load))  # by GPU
    NVMLError: type[NVMLError] = NVMLError

    def copy(self, into: int = 0, out_of: int = 0, gpu: int = 0) -> None:
        """As if copies of so many bytes over that GPU's link ran now."""
        load = self.loads[gpu]
        load.busy, load.into, load.out_of = True, load.into + into, load.out_of + out_of

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.opened += 1
        self._enter("nvmlInit")

    def __getattr__(self, function: str) -> Any:
        """Of an NVML function: what the table says, after the errors that were asked for."""
        if function not in {**DRIVER, **DEVICE}:
            raise AttributeError(f"module 'pynvml' has no attribute {function!r}")
        return partial(self._driver if function in DRIVER else self._device, function)

    def _driver(self, function: str, *arguments: Any) -> Any:
        self._enter(function)
        return DRIVER[function](self, *arguments)

    def _device(self, function: str, handle: Any, *arguments: Any) -> Any:
        if isinstance(handle, str):  # a MIG device's handle is its UUID here
            if function != "nvmlDeviceGetUUID":
                raise NVMLError(NOT_SUPPORTED)
            return handle
        return DEVICE[function](self.loads[handle], self.gpu(handle, function), *arguments)

    def gpu(self, handle: Any, function: str) -> FakeGpu:
        """The GPU, where that function is answered for it."""
        self._enter(function)
        gpu, load = _nth(self.gpus, handle, NOT_FOUND), self.loads[handle]
        is_lost = load.into + load.out_of >= gpu.lost_after_bytes
        error = gpu.broken or (GPU_IS_LOST if is_lost else gpu.errors.get(function))
        if error:
            raise error if isinstance(error, Exception) else NVMLError(error)
        return gpu

    def _enter(self, function: str) -> None:
        self.asked[function] += 1
        if function == self.hangs:
            self.hung.set()
            self.released.wait()
        if not self.opened:
            raise NVMLError(UNINITIALIZED)


def _handle(nvml: FakeNvml, index: int) -> int:
    nvml.gpu(index, "nvmlDeviceGetHandleByIndex")
    return index


def _link(load: Load, gpu: FakeGpu) -> tuple[int, int]:
    return gpu.link if load.busy or gpu.sleeping_link is None else gpu.sleeping_link


def _nth(values: Sequence[T], index: int, code: int) -> T:
    """Raises as NVML does where there are not so many."""
    if not 0 <= index < len(values):
        raise NVMLError(code)
    return values[index]


DRIVER: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetCount": lambda n: len(n.gpus),
    "nvmlDeviceGetHandleByIndex": _handle,
    "nvmlSystemGetDriverVersion": lambda n: n.driver,
    "nvmlSystemGetCudaDriverVersion_v2": lambda n: n.cuda_driver,
    "nvmlSystemGetConfComputeState": lambda n: SimpleNamespace(ccFeature=int(n.confidential)),
}
"""The driver's functions: the fake and the other arguments in."""

DEVICE: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetName": lambda load, gpu: gpu.name,
    "nvmlDeviceGetUUID": lambda load, gpu: gpu.uuid,
    "nvmlDeviceGetPciInfo": lambda load, gpu: SimpleNamespace(busId="00000000:18:00.0"),
    "nvmlDeviceGetVbiosVersion": lambda load, gpu: "96.00.A5.00.01",
    "nvmlDeviceGetMemoryInfo": lambda load, gpu: SimpleNamespace(total=150_754_820_096),
    "nvmlDeviceGetMemoryBusWidth": lambda load, gpu: 6144,
    "nvmlDeviceGetMaxClockInfo": lambda load, gpu, clock: (1980, 3201)[clock == 2],
    "nvmlDeviceGetClockInfo": lambda load, gpu, clock: (
        (1755, 3201) if load.busy else gpu.clocks_mhz
    )[clock == 2],
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda load, gpu: _link(load, gpu)[0],
    "nvmlDeviceGetCurrPcieLinkWidth": lambda load, gpu: _link(load, gpu)[1],
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda load, gpu: gpu.max_link[0],
    "nvmlDeviceGetMaxPcieLinkWidth": lambda load, gpu: gpu.max_link[1],
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": lambda load, gpu: 5,  # in another slot
    "nvmlDeviceGetMigMode": lambda load, gpu: [int(gpu.mig)] * 2,
    "nvmlDeviceGetMaxMigDeviceCount": lambda load, gpu: 7 if gpu.mig else 0,
    "nvmlDeviceGetMigDeviceHandleByIndex": lambda load, gpu, index: _nth(
        gpu.mig_uuids, index, NOT_FOUND
    ),
    "nvmlDeviceGetPersistenceMode": lambda load, gpu: 1,
    "nvmlDeviceGetEccMode": lambda load, gpu: [1, 1],
    "nvmlDeviceGetTotalEccErrors": lambda load, gpu, kind, counter: 0,
    "nvmlDeviceGetEnforcedPowerLimit": lambda load, gpu: 700_000,
    "nvmlDeviceGetTemperature": lambda load, gpu, sensor: 44 if load.busy else 31,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda load, gpu: (
        gpu.throttle_bits & ~0x1 if load.busy else gpu.throttle_bits
    ),
    "nvmlDeviceGetComputeRunningProcesses": lambda load, gpu: [
        SimpleNamespace(pid=pid) for pid in gpu.pids
    ],
    "nvmlDeviceGetFieldValues": lambda load, gpu, ids: [gpu.field(one, load) for one in ids],
    "nvmlDeviceGetC2cModeInfoV": lambda load, gpu: SimpleNamespace(isC2cEnabled=gpu.c2c_links > 0),
    "nvmlDeviceGetNvLinkState": lambda load, gpu, link: _nth(
        [n < gpu.nvlinks_up for n in range(gpu.nvlinks)], link, INVALID_ARGUMENT
    ),
}
"""Functions of one GPU: its load, the GPU itself and the arguments after the handle in."""

MIG_UUID = "MIG-aaaaaaaa-1111-2222-3333-444444444444"


def _refusing(code: int, names: str) -> dict[str, Any]:
    return {f"nvmlDeviceGet{name}": code for name in names.split()}


_OLD_DRIVER = FakeGpu(errors=_refusing(FUNCTION_NOT_FOUND, "MemoryBusWidth C2cModeInfoV"))
_VGPU = FakeGpu(
    name="NVIDIA A40-48Q",
    errors=_refusing(
        NOT_SUPPORTED,
        "CurrPcieLinkGeneration CurrPcieLinkWidth MaxPcieLinkGeneration MaxPcieLinkWidth "
        "GpuMaxPcieLinkGeneration FieldValues NvLinkState MaxClockInfo EnforcedPowerLimit",
    ),
)
_SLICE = FakeGpu(
    mig=True,
    mig_uuids=(MIG_UUID,),
    errors=_refusing(NO_PERMISSION, "MemoryInfo ComputeRunningProcesses"),
    field_errors={TX: NOT_SUPPORTED, RX: NOT_SUPPORTED},
)
_OF_MACHINES: dict[str, dict[str, Any]] = {
    "library_missing": {"gpus": (), "init_error": LIBRARY_NOT_FOUND},
    "no_permission": {"gpus": (FakeGpu(errors=_refusing(NO_PERMISSION, "HandleByIndex")),)},
    "old_driver": {"gpus": (_OLD_DRIVER,), "driver": "470.256.02", "cuda_driver": 11040},
    "vgpu": {"gpus": (_VGPU,)},
    "mig_slice": {"gpus": (_SLICE,)},
    "lost_midway": {"gpus": (FakeGpu(lost_after_bytes=1 << 20),)},
    "needs_reset": {"gpus": (FakeGpu(broken=REQUIRES_RESET),)},
    "one_lost": {"gpus": (FakeGpu(uuid="GPU-0", broken=GPU_IS_LOST), FakeGpu(uuid="GPU-1"))},
}
MACHINES = tuple(_OF_MACHINES)


class _Steps:
    """Stands in for the event that ends a watch: what happens before each reading, then the end."""

    def __init__(self, steps: Iterable[Callable[[], object]]) -> None:
        self._steps = iter(steps)

    def is_set(self) -> bool:
        step = next(self._steps, None)
        if step is not None:
            step()
        return step is None

    def wait(self, seconds: float) -> None: ...

    def set(self) -> None: ...


def watched(
    library: FakeNvml, before: Facts, *steps: Callable[[], object], num_gpus: int = 1
) -> Facts:
    """What a watch writes that reads NVML once after each of the steps."""
    written: dict[str, Any] = {}
    with (
        mock.patch.object(watch, "Event", partial(_Steps, steps)),
        watch.watching(written.__setitem__, before, num_gpus, library),
    ):
        pass
    facts: Facts = written["during"]
    return facts


def machine(name: str) -> FakeNvml:
    """NVML of one of MACHINES, which nobody here has."""
    return FakeNvml(**_OF_MACHINES[name])
