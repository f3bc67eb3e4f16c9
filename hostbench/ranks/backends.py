"""What each backend of torch.distributed is like. Knows no torch."""

ASYNCHRONOUS = ("nccl",)
"""A call may return before its result is there: collectives are kernels on a stream, which a
profiler sees. The others' calls wait."""
ON_GPUS_ALONE = ("nccl",)


def refusal(device: str, num_ranks: int, num_devices: int) -> str | None:
    """Why so many ranks of one host cannot have its devices; None where they can. Each has a GPU to
    itself; cores are shared."""
    if device == "cuda" and num_devices < num_ranks:
        return f"needs {num_ranks} GPUs, this machine has {num_devices}"
    return None
