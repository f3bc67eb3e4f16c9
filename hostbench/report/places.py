"""Where a series was measured, as `hostbench compare` names it: a machine, and another project's
environment there where its machine has several."""

from collections.abc import Iterator

from hostbench.report.side_runs import SideRuns
from hostbench.store.asv_tree import environment_of

Key = tuple[str, ...]
"""Where a series was measured (Places.of), case, version."""


class Places:
    """Of both sides together: what one side alone has tells nothing apart."""

    def __init__(self, first: SideRuns, second: SideRuns) -> None:
        self.of_machines = "machine" in (first.column, second.column)
        self._of_environments = "environment" in (first.column, second.column)
        self._first, self._second = (self._environments(side) for side in (first, second))

    def of(self, machine: str, run_id: str) -> tuple[str, ...]:
        """The beginning of a series' key: (machine) or (machine/environment). Where machines are
        compared (environment), or nothing; where environments are, (machine)."""
        if self._of_environments:
            return (machine,)
        name = environment_of(run_id) or ""
        if self.of_machines:
            return (name,) if name and self._has_several("") else ()
        return (f"{machine}/{name}" if name and self._has_several(machine) else machine,)

    def without_a_common_one(self) -> Iterator[str]:
        """A line for each machine of both sides whose environments differ, unless those are what
        is compared."""
        if self._of_environments:
            return
        for machine in sorted(self._first.keys() & self._second.keys()):
            sides = self._first[machine], self._second[machine]
            if not sides[0] & sides[1]:
                first, second = (
                    ", ".join(sorted(name or "hostbench's own" for name in side)) for side in sides
                )
                where = f" of {machine}" if machine else ""
                yield f"no environment{where} is on both sides: {first} there, {second} here"

    def _environments(self, side: SideRuns) -> dict[str, set[str]]:
        """Machine, or nothing where machines are compared -> environments; hostbench's own is
        nothing."""
        found: dict[str, set[str]] = {}
        for machine, run_id in side.runs:
            own = found.setdefault("" if self.of_machines else machine, set())
            own.add(environment_of(run_id) or "")
        return found

    def _has_several(self, machine: str) -> bool:
        return len(self._first.get(machine, set()) | self._second.get(machine, set())) > 1
