"""What NCCL says of its choices. The names of its kernels do not tell: most algorithms and
protocols run inside a kernel that is named after another one (nccl#1595, nccl#2196)."""

import os
import re

_CHOICE = re.compile(r"Bytes -> Algo (\w+) proto (\w+)")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


class NcclLog:
    """Of this process, from before it has a communicator; a file that exists in memory only."""

    def __init__(self) -> None:
        self._file = os.memfd_create("hostbench-nccl")
        os.environ["NCCL_DEBUG"], os.environ["NCCL_DEBUG_SUBSYS"] = "INFO", "TUNING"
        os.environ["NCCL_DEBUG_FILE"] = f"/proc/self/fd/{self._file}"

    def __len__(self) -> int:
        return os.fstat(self._file).st_size

    def choices(self, start: int = 0) -> str | None:
        """`RING LL`, algorithm and protocol, of the collectives that were logged from this byte on,
        each once; None where none was."""
        return choices(os.pread(self._file, len(self), start).decode(errors="replace"))


def choices(text: str) -> str | None:
    """From lines such as `AllReduce: 4096 Bytes -> Algo RING proto LL`; older NCCLs have numbers
    (`Algo 1 proto 0`, as in its nccl_common.h)."""
    chosen = [
        f"{_named(algorithm, _ALGORITHMS)} {_named(protocol, _PROTOCOLS)}"
        for algorithm, protocol in _CHOICE.findall(text)
    ]
    return ", ".join(dict.fromkeys(chosen)) or None


def _named(word: str, names: tuple[str, ...]) -> str:
    return names[int(word)] if word.isdigit() and int(word) < len(names) else word
