"""What a case really did, gathered in a pass of its own: never in the same pass as its timing.

One reading of the step runs while the device is observed (Kineto on cuda, the streams' own clock on
cpu, the log of the simulated device), and, where hardware counts the bytes on the link, the step
once more between two readings of the counters.
"""

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from hostbench.core.errors import Unavailable
from hostbench.core.records import FindingValue, Measurement
from hostbench.core.units import MIB, format_bytes
from hostbench.device.activity import COMPUTE, Activity, busy, copied, length, shared
from hostbench.device.base import Device
from hostbench.measure.measure import Prepared

OVERLAPPED_SHARE = 0.5
"""From this share of the shorter of two kinds of work on, they count as overlapped."""
COUNTED_BYTES = 64 * MIB
"""Steps are repeated until at least so much has crossed the link: counters are coarse."""
MAX_REPEATS = 256
COUNTED_SHARE = 0.9
"""Fewer counted bytes than this share of those copied, and the copies did not cross the link."""
UNSEEN_SHARE = 0.05
"""Growth below this share of what was asked is others' traffic: the copies took another link."""
MORE, SAME_SHARE = 4, 0.1
"""Times the repeats, and how far apart the shares may be that are the same."""
COUNTER_WAIT_S = 0.25  # how long the counters get to catch up


def gather(device: Device, prepared: Prepared, *, traced: bool = False) -> Measurement:
    """Observe one reading of the step, after its warm-up: findings and proofs, no times; `traced`:
    with its trace, or raises Unavailable. Raises what running the step raises."""
    num_steps = prepared.warmup_steps + prepared.depth

    def steps(num: int = num_steps) -> None:
        for _ in range(num):
            prepared.step()

    prepared.get_ready(device)
    steps(prepared.depth)
    try:
        ready = partial(prepared.get_ready, device)
        observation = device.observe(steps, ready, traced=traced)
    except Unavailable as reason:
        if traced:
            raise
        proofs = {"copies": f"unavailable: {reason}"} if prepared.copies else {}
        return Measurement(proofs=proofs | _link_proof(device, prepared))
    seen = observation.activities
    per_step: dict[str, FindingValue] = {
        "busy_s": length(busy(seen, kinds=("",))) / num_steps,
        "syncs_per_step": observation.num_waits / num_steps,
    }
    return Measurement(
        findings=_findings(seen) | per_step,
        proofs=_copies_proof(prepared, seen, num_steps) | _link_proof(device, prepared),
        num_steps=num_steps if traced else None,
        trace=tuple(observation.trace),
    )


def _findings(seen: Sequence[Activity]) -> dict[str, FindingValue]:
    """`copies` in words, `3 x H2D pinned, 48MiB in all`; the share of work beside other work."""
    copies = busy(seen, kinds=("H2D", "D2H", "P2P"))
    computes = busy(seen, kinds=(COMPUTE,))
    counts = Counter(activity.what for activity in seen)
    texts = [
        f"{counts[what]} x {what}, {format_bytes(nbytes)} in all"
        for what, nbytes in copied(seen).items()
    ]
    findings: dict[str, FindingValue] = {"copies": "; ".join(texts) or "none"}
    if copies:
        findings["pageable"] = any(activity.what.endswith("pageable") for activity in seen)
    if copies and computes:
        share = shared(copies, computes)
        findings |= {"overlap_share": share, "overlapped": share >= OVERLAPPED_SHARE}
    into, out_of = busy(seen, kinds=("H2D",)), busy(seen, kinds=("D2H",))
    if into and out_of:
        share = shared(into, out_of)
        findings |= {"both_ways_share": share, "both_at_once": share >= OVERLAPPED_SHARE}
    return findings


def _copies_proof(prepared: Prepared, seen: Sequence[Activity], num_steps: int) -> dict[str, str]:
    """The kinds of copy and their bytes are those that the workload declares."""
    if prepared.copies is None:
        return {}
    declared = {what: num_steps * nbytes for what, nbytes in prepared.copies.items()}
    inner = "D2D" in declared  # what checks and caches copy inside the device is nobody's claim
    nbytes_of = {what: num for what, num in copied(seen).items() if inner or what != "D2D"}
    if nbytes_of == declared:
        return {"copies": "passed"}
    if "P2P" in declared and not nbytes_of:
        return {"copies": "unavailable: copies between GPUs are not listed"}
    seen_bytes, declared_bytes = (
        ", ".join(f"{nbytes} bytes {what}" for what, nbytes in of.items()) or "no bytes"
        for of in (nbytes_of, declared)
    )
    return {"copies": f"failed: {seen_bytes} were copied, not {declared_bytes}"}


def _link_proof(device: Device, prepared: Prepared) -> dict[str, str]:
    """The hardware's counters saw at least the bytes that the step declares."""
    asked = [
        sum(nbytes for what, nbytes in (prepared.copies or {}).items() if what.startswith(way))
        for way in ("H2D", "D2H")
    ]
    if not any(asked):
        return {}
    try:
        return {"link_bytes": _counted(device, prepared, asked)}
    except Unavailable as reason:
        return {"link_bytes": f"unavailable: {reason}"}


def _counted(device: Device, prepared: Prepared, asked: Sequence[int]) -> str:
    """`passed` or `failed: ...`, or raises Unavailable. Counters that saw a part may be late: only
    the same part of more repeats fails the step."""
    if prepared.to_second_device:
        raise Unavailable("the bytes cross the links of two devices")
    fewest = max(1, -(-COUNTED_BYTES // max(asked)))
    if fewest > MAX_REPEATS:
        raise Unavailable(f"{format_bytes(max(asked))} is too little for the link's counters")
    parts: list[float] = []
    for repeats in (fewest, MORE * fewest):
        wanted = [repeats * nbytes for nbytes in asked]
        grown = _growth(device, prepared, repeats, wanted)
        parts.append(min(n / most for n, most in zip(grown, wanted, strict=True) if most))
        if parts[-1] >= COUNTED_SHARE:
            return "passed"
        if min(grown) < 0:
            raise Unavailable("a counter wrapped")
        if sum(grown) < UNSEEN_SHARE * sum(wanted):
            raise Unavailable("the counters do not see this link")
    first, second = parts
    if abs(second - first) > SAME_SHARE:
        raise Unavailable(f"the counters are late: they saw {first:.0%}, then {second:.0%}")
    why = f"{grown[0]} bytes into the device and {grown[1]} out of it"
    return f"failed: the link's counters saw {why}, the steps copied {wanted[0]} and {wanted[1]}"


def _growth(
    device: Device, prepared: Prepared, repeats: int, wanted: Sequence[int]
) -> tuple[int, ...]:
    """Of the counters (into, out of) while the step is repeated: as soon as it is enough, or after
    they had time to catch up."""
    start = device.bytes_counted()
    for _ in range(repeats):
        prepared.get_ready(device)
        prepared.step()
        device.synchronize()
    deadline_s = time.monotonic() + COUNTER_WAIT_S
    while True:
        grown = tuple(now - then for now, then in zip(device.bytes_counted(), start, strict=True))
        enough = all(n >= COUNTED_SHARE * most for n, most in zip(grown, wanted, strict=True))
        if enough or time.monotonic() > deadline_s:
            return grown
        time.sleep(0.02)
