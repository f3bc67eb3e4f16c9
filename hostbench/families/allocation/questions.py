"""What is asked of the family allocation: on the CPU and moved, or directly on the device."""

from hostbench.report.kinds import Compare
from hostbench.report.rows import Row

WORDS = {"place": {"cpu_then_move": "moved", "direct": "direct"}}


def _nothing(row: Row) -> str:
    return "nothing is enqueued or touched" if row.axes["place"] == "direct" else ""


QUESTIONS = (
    Compare(
        text="Create {fill} on the CPU and move it, or directly on the device?",
        workload="allocation.create",
        where={"fill": ("zeros", "randn")},
        each=("fill",),
    ),
    Compare(
        text="What does an empty tensor cost, created on the CPU and moved, and on the device?",
        workload="allocation.create",
        where={"fill": "empty"},
        baseline={},
        note=_nothing,
    ),
)
