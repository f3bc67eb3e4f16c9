"""A machine's simulated history whose changes are known, for the dashboard's tests."""

from pathlib import Path

from hostbench.testing.histories import tree
from hostbench.testing.histories.story import Event, HistoryNoise, Machine, Story

MACHINE = "simulated-a"
STORY = Story(
    seed=3,
    commits=90,
    series=8,
    machines=(Machine(name=MACHINE, noise=HistoryNoise(sigma=0.004)),),
    events=(
        Event(kind="environment", at=25, fact="nvml.driver", value="590.7", effect=0.05),
        Event(kind="code", at=60, effect=0.10, series="transfer.host_to_device"),
        Event(kind="code", at=65, effect=-0.10, series="transfer.device_to_host"),
        Event(kind="version", at=77, series="allocation.create"),
    ),
)
"""A driver that slows the machine, a commit that slows two series, one that makes one faster, and a
new version of another."""
SLOWER = "transfer.host_to_device"


def write(folder: Path) -> Path:
    """The results folder; its commits are in no git."""
    return tree.write(folder, STORY, git=False).results
