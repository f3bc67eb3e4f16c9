"""Why the cpu device refuses: said by the device itself, and told beforehand by `doctor`."""

from hostbench.core.case import Case

NO_PINNED = "the cpu device has no pinned memory; it needs a GPU"
NO_CACHE = "the cpu device's allocators have no caches: cold and warm are one case"
NO_TARGET = {
    "here": "the cpu device's memory is host memory: host_to_device is that copy already",
    "peer": "the cpu device has no peer; it needs 2 GPUs",
    "through_host": "the cpu device has no peer; it needs 2 GPUs",
}


def refusal(case: Case) -> str | None:
    """Why the cpu device will refuse a case, None where it will not; a test holds it to that."""
    axes, workload = case.values, case.workload.partition(".")[2]
    if axes.get("memory") in ("pinned", "registered"):
        return NO_PINNED
    if axes.get("cache") == "cold":
        return NO_CACHE
    if workload == "pin_and_copy":
        return NO_PINNED
    where = {"on_device": "here", "between_devices": str(axes.get("route"))}.get(workload)
    return None if where is None else NO_TARGET[where]
