"""Which backend ranks talk by on each kind of device. The only table of it; knows no torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backend:
    """How ranks on a kind of device talk to each other."""

    name: str
    own_device: bool
    """Each rank must have a device to itself; else more ranks than devices share them."""
    returns_early: bool
    """A collective may return before its result is there."""

    def refusal(self, num_ranks: int, num_devices: int) -> str | None:
        """Why that many ranks cannot run on that many devices; None where they can."""
        if self.own_device and num_devices < num_ranks:
            return f"needs {num_ranks} GPUs, this machine has {num_devices}"
        return None


BACKENDS = {
    "cuda": Backend("nccl", own_device=True, returns_early=True),
    "cpu": Backend("gloo", own_device=False, returns_early=False),
}
