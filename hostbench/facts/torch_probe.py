"""What torch says of itself, asked in a process of its own: the asking process imports no torch."""

import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from threading import Timer
from typing import Any

from msgspec import Struct, convert
from msgspec.json import decode

from hostbench.facts.nvml import hash_uuid

PROBE_TIMEOUT_S = 180.0  # a first import from a shared disk takes minutes
SLOW_S = 10.0
"""Then it is said that it may."""

_PROBE = """
import json, warnings
state = {"installed": True, "importable": False, "devices": []}
try:
    import torch
    state["importable"] = True
    state["version"] = str(torch.__version__)
    state["cuda_runtime"] = torch.version.cuda
    dist = torch.distributed
    if torch.version.cuda and dist.is_available() and dist.is_nccl_available():
        state["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, device="cuda").add_(1).cpu()
        count = torch.cuda.device_count()
        state["devices"] = [torch.cuda.get_device_name(i) for i in range(count)]
        state["cuda_works"] = True
        properties = [torch.cuda.get_device_properties(i) for i in range(count)]
        if all(hasattr(each, "uuid") for each in properties):
            state["uuids"] = [str(each.uuid) for each in properties]
except ModuleNotFoundError as error:
    state["installed"] = error.name != "torch"
    state["error"] = str(error)
except Exception as error:
    state["error"] = (str(error).strip() or type(error).__name__).splitlines()[0]
print(json.dumps(state))
"""


class TorchState(Struct, frozen=True, kw_only=True):
    """The answer; None where it is not known or torch was built without it."""

    installed: bool
    importable: bool
    version: str | None = None
    cuda_runtime: str | None = None
    """The CUDA that torch was built for; None for a CPU build."""
    nccl: str | None = None
    cuda_works: bool = False
    """A tensor was made, added to and read back on the GPU."""
    devices: tuple[str, ...] = ()
    uuid_hashes: tuple[str, ...] = ()
    """Of the CUDA devices in order, for `gpu`; empty before torch 2.6. Never UUIDs."""
    error: str | None = None
    """The first thing that went wrong, in torch's words."""


def version_of(package: str) -> str | None:
    """Of an installed package; None where it is not."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def probe_torch(
    device: str | None = None, *, timeout_s: float = PROBE_TIMEOUT_S, code: str = _PROBE
) -> TorchState:
    """Ask torch. Never raises: what goes wrong is in `error`. With `device="cpu"` a torch that was
    built for the CPU alone is not imported, which takes seconds: there is nothing to ask it."""
    version = version_of("torch")
    if device == "cpu" and version and version.endswith("+cpu"):
        return TorchState(installed=True, importable=True, version=version)
    slow = Timer(SLOW_S, print, ("importing torch: a first time takes long",), {"file": sys.stderr})
    slow.start()
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
        done.check_returncode()
        lines = done.stdout.strip().splitlines()  # libraries may print before the answer
        state = decode(lines[-1], type=dict[str, Any])
        hashes = [hash_uuid(uuid) for uuid in state.pop("uuids", ())]
        return convert({**state, "uuid_hashes": hashes}, TorchState)
    except subprocess.TimeoutExpired:
        error = f"importing torch and touching the GPU took over {timeout_s:g} s"
    except (subprocess.CalledProcessError, IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        error = f"the process that imports torch ended with {done.returncode}: {last}"
    finally:
        slow.cancel()
    return TorchState(installed=True, importable=False, error=error)
