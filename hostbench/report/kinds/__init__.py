"""The kinds of questions, as data: each chooses rows of a run and makes one answer of them.

compare    values of axes against the baseline that the workload declares
scaling    over ranks, workers or items in a batch: a figure at each, and the fewest that are enough
curve      a rate or a time over a size: fit, limit, published band, where two lines cross
finding    what a case turned out to do, by size
parts      a whole against its ideal and its parts
"""

from hostbench.report.kinds.compare import Compare
from hostbench.report.kinds.curve import Curve
from hostbench.report.kinds.finding import Finding
from hostbench.report.kinds.parts import Parts
from hostbench.report.kinds.question import Question
from hostbench.report.kinds.scaling import Scaling

__all__ = ["Compare", "Curve", "Finding", "Parts", "Question", "Scaling"]
