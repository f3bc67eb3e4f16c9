"""What the rates of a run are held against: the links of its machine, and what others measured.

Worked out when a run is read, from its facts and from the workloads of today. Columns:

ceiling_gb_per_s         what gb_per_s can be at most (of all_reduce: the bus bandwidth)
encoded_gb_per_s         the same without packet overhead, where the limit is PCIe
ceiling                  what the limit is; where there is none, why
link                     what is wrong with the link of the GPU that ran, or `fine`
published_low_gb_per_s, published_high_gb_per_s   what others measured on this GPU
published, published_kind   that in words, with who; measured, or floor: an operator's demand

And in `flags` whether a copy is `cached`: of two buffers that the CPU's cache holds.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from hostbench.core.case import Case, read_case
from hostbench.core.records import DAMAGE
from hostbench.facts.record import Facts, cuda_group, number_of, text_of
from hostbench.families import declared
from hostbench.limits.ceiling import HOST_LINKS, ceiling
from hostbench.limits.links import LinkName
from hostbench.limits.published import band
from hostbench.limits.verdict import link_verdicts

LIMITS = (
    *("ceiling_gb_per_s", "encoded_gb_per_s", "ceiling", "link"),
    *("published_low_gb_per_s", "published_high_gb_per_s", "published", "published_kind"),
)


def with_limits(rows: pd.DataFrame, facts: Mapping[str, Facts]) -> pd.DataFrame:
    """The rows of one run, whose facts these are, with the columns LIMITS."""
    before, during = facts.get("before", {}), facts.get("during", {})
    num_hosts = 1 + sum(when.startswith("host ") for when in facts)
    cache_bytes = number_of(before, "host", "cache_bytes") or 0.0
    ran = cuda_group(before)
    verdicts = [verdict for verdict in link_verdicts(before, during) if verdict.group == ran]
    wrong = "; ".join(verdict.text for verdict in verdicts if verdict.level == "warn")
    is_fine = any(verdict.kind == "fine" for verdict in verdicts)
    link = wrong or ("fine" if is_fine else None)  # None where nothing is known of it

    def limits_of(text: str, device: str, status: str, flags: str) -> dict[str, Any]:
        cells: dict[str, Any] = {"flags": flags}
        case = None if status == "not measured" else read_case(text)
        if case is None:
            return cells
        crossed = _crossed(case)
        if crossed is None:
            return cells | {"ceiling": f"{case.workload} is not held against a link"}
        name, share, direction = crossed
        if name == "peer" and num_hosts > 1:
            why = f"{num_hosts} hosts: what the network between them carries is not known"
            return cells | {"ceiling": why}
        nbytes = float(case.values.get("nbytes", math.inf))
        limit = ceiling(name, share, device, before, during, nbytes)
        if isinstance(limit, str):
            cells["ceiling"] = limit
        else:
            cells["ceiling"] = limit.text
            cells["ceiling_gb_per_s"] = limit.gb_per_s
            cells["encoded_gb_per_s"] = limit.encoded_gb_per_s
        if device == "cuda":
            cells |= {"link": link} if name in HOST_LINKS else {}
            figures = direction and band(text_of(before, ran or "", "name"), direction)
            if figures:  # as rates of all bytes, of which `share` crosses the link
                cells["published_low_gb_per_s"] = figures.low_gb_per_s / share
                cells["published_high_gb_per_s"] = figures.high_gb_per_s / share
                cells["published"] = str(figures)
                cells["published_kind"] = figures.kind
        elif name in HOST_LINKS and status == "ok" and 2 * nbytes < cache_bytes:
            cells["flags"] = "; ".join(filter(None, (flags, "cached")))
        return cells

    every = zip(
        rows["case"], rows["device"].astype(str), rows["status"], rows["flags"], strict=True
    )
    limits = [limits_of(*row) for row in every]
    columns = pd.DataFrame(limits, columns=(*LIMITS, "flags"), index=rows.index)
    return rows.assign(**{str(name): column for name, column in columns.items()})


def _crossed(case: Case) -> tuple[LinkName, float, str | None] | None:
    """Link, share of the bytes that cross it, and published figures of a case; None where its
    workload names no link, or is of another version, with other axes or values than today's."""
    work = declared(case.workload)
    if work is None or set(work.axes) != set(case.values):
        return None
    try:
        options = work.options(case)
        if options.link is None:
            return None
        return options.link, options.share_of_link, options.published
    except (*DAMAGE, ArithmeticError):
        return None
