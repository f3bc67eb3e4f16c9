"""The kinds of questions, as data: each chooses rows of a run and makes one answer of them.

compare    values of axes against the baseline that the workload declares, at one size or along an
           axis of numbers
scaling    over workers, ranks or items in a batch: the fewest that are enough
curve      latency and bandwidth, of a line over a size
finding    what a case turned out to do, by size, and what was counted
parts      a whole against its ideal and its parts
"""

from hostbench.report.kinds.compare import Compare, Scaling
from hostbench.report.kinds.curve import Curve
from hostbench.report.kinds.finding import Finding
from hostbench.report.kinds.parts import Parts
from hostbench.report.kinds.question import Question

__all__ = ["Compare", "Curve", "Finding", "Parts", "Question", "Scaling"]
