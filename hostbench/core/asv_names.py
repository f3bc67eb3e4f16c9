"""What a workload is called in asv: `benchmarks/` holds these names, asv's files too."""


def class_name(workload: str) -> str:
    """`transfer.host_to_device` -> `HostToDevice`."""
    return "".join(part.capitalize() for part in workload.partition(".")[2].split("_"))


def asv_name(workload: str) -> str:
    """`transfer.host_to_device` -> `transfer.HostToDevice.track_seconds`."""
    return f"{workload.partition('.')[0]}.{class_name(workload)}.track_seconds"
