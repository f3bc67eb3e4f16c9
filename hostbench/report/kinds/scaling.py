"""scaling: the fewest workers, ranks or items in a batch than which no more is faster."""

from collections.abc import Sequence
from dataclasses import dataclass

from hostbench.core import units
from hostbench.report import answer as answers
from hostbench.report.answer import Figure, in_unit, joined
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.compare import Beside, Compare
from hostbench.report.kinds.question import figure
from hostbench.report.rows import Row, Rows, first, varying


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Compare):
    """The figure at each number, each beside the fewest, and which number is enough."""

    over: str = "num_ranks"
    ideal: Beside | None = None
    """One more case, which all are read beside."""
    ideal_name: str = ""

    def asks(self, group: Rows) -> bool:
        return Compare.asks(self, group) and self.over in varying(group)

    def alone(self, row: Row, rows: Rows) -> list[Figure]:
        if self.ideal is None:
            return []
        workload, axes = self.ideal(row)
        other = first(rows, workload, **axes)
        return [figure(self.ideal_name, other)] if other else []

    def verdict(self, measured: Rows, figures: Sequence[Figure]) -> tuple[answers.State, str]:
        if few := questions.few_launches(measured):
            return "undecided", f"undecided: {few}"
        for best, fewest in enumerate(measured):
            others = {row.case: self.conclude(row, fewest) for row in measured if row is not fewest}
            more = {others[row.case].verdict for row in measured[best + 1 :]}
            if "faster" not in more:
                break
        if others and all(known.verdict == "undecided" for known in others.values()):
            return "undecided", answers.difference(max(others.values(), key=answers.weight))
        slower = joined(
            f"{shown.label} {units.format_factor(1 / others[row.case].factor)}"
            for row, shown in zip(measured, figures, strict=True)
            if row.case in others and others[row.case].verdict == "slower"
        )
        none = "no difference seen with more" if "undecided" in more else "more is no faster"
        value = in_unit(figures[best].value or 0.0, self.unit)
        verdict = f"{figures[best].label}: {value}{' a step' * (self.unit == 's')}"
        verdict += f", and {none}" if more else ""
        return "figure", f"{verdict}; slower: {slower}" if slower else verdict
