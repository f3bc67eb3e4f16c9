"""The frame's columns that say what a row is held against: ceiling, link, published figures."""

import math
from dataclasses import dataclass
from typing import Any

from hostbench.core.case import Case
from hostbench.core.records import DAMAGE
from hostbench.facts.record import Facts, cuda_group, gpu_groups, text_of
from hostbench.families import declared
from hostbench.limits.ceiling import HOST_LINKS, Ceiling, ceiling
from hostbench.limits.links import LinkName
from hostbench.limits.published import PublishedFigure, band
from hostbench.limits.verdict import link_verdicts
from hostbench.store.runs import WholeRun, facts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is known of one run's links."""

    before: Facts
    during: Facts
    """Read while copies ran; empty where nobody looked."""
    figures: tuple[PublishedFigure, ...]
    num_hosts: int = 1

    def columns(self, case: Case, device: str) -> dict[str, Any]:
        """The columns of one row; `device` is what ran. Only what is known has a key."""
        known = _crossed(case)
        if known is None:
            return {"ceiling": f"{case.workload} is not held against a link"}
        link, share, published = known
        if link == "peer" and self.num_hosts > 1:
            why = f"{self.num_hosts} hosts: what the network between them carries is not known"
            return {"ceiling": why}
        nbytes = float(case.values.get("nbytes", math.inf))
        limit = ceiling(link, share, device, self.before, self.during, nbytes)
        row: dict[str, Any] = {"ceiling": limit}
        if isinstance(limit, Ceiling):
            row["ceiling"] = limit.text
            row["ceiling_gb_per_s"] = limit.gb_per_s
            row["encoded_gb_per_s"] = limit.encoded_gb_per_s
        if device == "cuda":
            row |= self._link() if link in HOST_LINKS else {}
            row |= self._published(published, share)
        return row

    def _link(self) -> dict[str, Any]:
        """What is wrong with the link between the host and the GPU that ran."""
        ran = cuda_group(self.before)
        verdicts = [own for own in link_verdicts(self.before, self.during) if own.group == ran]
        wrong = "; ".join(verdict.text for verdict in verdicts if verdict.level == "warn")
        is_fine = any(verdict.kind in ("fine", "c2c") for verdict in verdicts)
        return {"link": wrong or "fine"} if wrong or is_fine else {}

    def _published(self, way: str | None, share: float) -> dict[str, Any]:
        """As rates of all bytes, of which `share` crosses the link that was measured."""
        name = text_of(self.before, cuda_group(self.before) or "", "name")
        known = way and band(self.figures, name, way)
        if not known:
            return {}
        return {
            "published_low_gb_per_s": known.low_gb_per_s / share,
            "published_high_gb_per_s": known.high_gb_per_s / share,
            "published": str(known),
            "published_kind": known.kind,
        }


def _crossed(case: Case) -> tuple[LinkName, float, str | None] | None:
    """Link, share of the bytes that cross it, and published figures of a case; None where its
    workload names no link, or is of another version, with other axes or values than today's."""
    work = declared(case.workload)
    if work is None or set(work.axes) != set(case.values):
        return None
    try:
        link, share = work.link_of(case), work.share_of_link(case)
        return (link, share, work.published_of(case)) if link else None
    except (*DAMAGE, ArithmeticError):
        return None


def limits(run: WholeRun, figures: tuple[PublishedFigure, ...]) -> Limits:
    return Limits(
        before=facts_of(run.facts),
        during=facts_of(run.run.facts.get("during", {})),
        figures=figures,
        num_hosts=1 + sum(when.startswith("host ") for when in run.run.facts),
    )


def gpu_name(facts: Facts) -> str | None:
    """The model of the GPU that ran; `A or B` where that is one of several models."""
    ran = cuda_group(facts)
    names = {text_of(facts, group, "name") for group in ([ran] if ran else gpu_groups(facts))}
    return " or ".join(sorted(filter(None, names))) or None
