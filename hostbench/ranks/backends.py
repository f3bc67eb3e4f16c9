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


BACKENDS = {
    "cuda": Backend("nccl", own_device=True, returns_early=True),
    "cpu": Backend("gloo", own_device=False, returns_early=False),
}
