"""The frame's columns that say what a row is held against: ceiling, link, published figures."""

from dataclasses import dataclass
from typing import Any

from hostbench.core.case import Case
from hostbench.facts.record import Facts, cuda_group, gpu_groups, text_of
from hostbench.limits.cases import Ceiling, ceiling, direction
from hostbench.limits.published import Figure, band, direction_of
from hostbench.limits.verdict import link_verdicts
from hostbench.store.runs import WholeRun, facts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is known of one run's links."""

    before: Facts
    during: Facts
    """Read while copies ran; empty where nobody looked."""
    figures: tuple[Figure, ...]

    def columns(self, case: Case, device: str) -> dict[str, Any]:
        """The columns of one row; `device` is what ran. Only what is known has a key."""
        found = ceiling(case, device, self.before, self.during)
        row: dict[str, Any] = {"ceiling": found}
        if isinstance(found, Ceiling):
            row["ceiling"] = found.text
            row["ceiling_gb_per_s"] = found.gb_per_s
            row["encoded_gb_per_s"] = found.encoded_gb_per_s
        if device == "cuda":
            row |= self._link(case)
            row |= self._published(case)
        return row

    def _link(self, case: Case) -> dict[str, Any]:
        if direction(case) is None and case.workload != "transfer.both_ways":
            return {}
        ran = cuda_group(self.before)
        verdicts = [one for one in link_verdicts(self.before, self.during) if one.group == ran]
        wrong = "; ".join(one.text for one in verdicts if one.level == "warn")
        seen = any(one.kind in ("fine", "c2c") for one in verdicts)
        return {"link": wrong or "fine"} if wrong or seen else {}

    def _published(self, case: Case) -> dict[str, Any]:
        way = direction_of(case)
        known = way and band(
            self.figures, text_of(self.before, cuda_group(self.before) or "", "name"), way
        )
        if not known:
            return {}
        return {
            "published_low_gb_per_s": known.low_gb_per_s,
            "published_high_gb_per_s": known.high_gb_per_s,
            "published": str(known),
            "published_kind": known.kind,
        }


def limits(run: WholeRun, figures: tuple[Figure, ...]) -> Limits:
    """`during` is that of the latest part that has one."""
    during = [part.facts["during"] for part in run.parts if part.facts.get("during")]
    return Limits(
        before=facts_of(run.facts), during=facts_of(during[-1] if during else {}), figures=figures
    )


def gpu_name(facts: Facts) -> str | None:
    """The model of the GPU that ran; `A or B` where that is one of several models."""
    ran = cuda_group(facts)
    names = {text_of(facts, group, "name") for group in ([ran] if ran else gpu_groups(facts))}
    return " or ".join(sorted(filter(None, names))) or None
