"""The kinds of questions, as data: each chooses rows of a run and makes one answer of them.

compare    values of axes against the baseline that the workload declares
curve      a rate or a time over a size: fit, limit, published band, where two lines cross
enough     over something that is counted: the fewest of it than which no more is faster
finding    what a case turned out to do, by size
parts      a whole against its ideal and its parts
scaling    over ranks or workers, with efficiency
"""

from hostbench.report.kinds.compare import Compare
from hostbench.report.kinds.curve import Curve
from hostbench.report.kinds.enough import Enough
from hostbench.report.kinds.finding import Finding
from hostbench.report.kinds.parts import Parts
from hostbench.report.kinds.question import Question
from hostbench.report.kinds.scaling import Scaling

__all__ = ["Compare", "Curve", "Enough", "Finding", "Parts", "Question", "Scaling"]
