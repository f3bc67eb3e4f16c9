"""`python -m hostbench.ranks`: `hostbench run`, where a launcher has started each rank's agent."""

import os
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import click

from hostbench import __version__, facts
from hostbench.cli import commands, entry
from hostbench.cli.measuring import Measuring, answer, chosen_cases, set_up
from hostbench.core.errors import EXIT_OK, HostbenchError, UsageError
from hostbench.core.processes import die_with_parent, die_with_torchrun
from hostbench.facts.machine import name_of_hosts
from hostbench.ranks.world import Hello, Member, require_alike
from hostbench.runner.plan import RANKS_AXIS, cases_of_world
from hostbench.vcs.measure import measure


@click.command(
    help="Measure collectives over the ranks that torchrun, srun or mpirun has started, on one "
    "host or many; rank 0 keeps the run and prints it (docs/cluster.md).",
    context_settings=commands.CONTEXT,
)
@commands.several(commands.FAMILIES, commands.SELECTION, commands.DEVICE, commands.LAUNCHES)
@commands.several(commands.DEADLINE, commands.RESULTS)
def _command(**given: Any) -> int:
    """Be the agent of one rank; of rank 0 conduct as well: measure, keep, answer. Exit codes are
    those of `hostbench run`; an agent that was not needed to the end has none of its own."""
    options, member = Measuring(**given), Member.from_environ()
    from hostbench.ranks import launch  # torch, which --help can do without

    def be_agent() -> int:
        launch.serve(member, lambda: _hello(member, options))
        return EXIT_OK

    if member.rank:
        return be_agent()
    if os.fork() == 0:  # before anything here has a thread
        die_with_parent()
        os._exit(entry.guarded(be_agent))
    return _conduct(member, options)


def main(argv: Sequence[str] | None = None) -> int:
    return entry.main(argv, _command, "python -m hostbench.ranks")


def _hello(member: Member, options: Measuring) -> Hello:
    try:
        _, cases, device = chosen_cases(options)
        alike = {"ranks": member.num_ranks, "hostbench": __version__, "torch": version("torch")}
        hello = Hello(member=member, alike=alike | dict.fromkeys(map(str, cases), "a case"))
        if member.local_rank:
            return hello
        host_facts = facts.collect(torch_state=facts.probe_torch(device) if member.rank else None)
        machine = facts.machine_name(None, host_facts)
        return replace(hello, machine=machine, facts=host_facts)
    except HostbenchError as error:
        return Hello(member=member, wrong=str(error))


def _conduct(member: Member, options: Measuring) -> int:
    from hostbench.ranks import launch

    mail = launch.Mail(launch.connect(member, conducts=True))
    die_with_torchrun(signal.SIGTERM)  # from here on there is something to keep
    try:
        setup = set_up(options)
        hellos = launch.greet(mail, member.num_ranks)
        require_alike(hellos)
        num_ranks = Counter(hello.member.node for hello in hellos)
        hosts = [(num_ranks[h.member.node], h.machine) for h in hellos if h.machine]
        others = [hello.facts for hello in hellos if hello.facts and hello.member.rank]
        setup = replace(
            setup,
            machine=name_of_hosts(hosts),
            host=replace(
                setup.host,
                others={f"host {number}": host for number, host in enumerate(others, 2)},
                launcher=os.getppid(),
            ),
        )
        cases = setup.plan.cases
        if not any(RANKS_AXIS in text for text in options.case):
            cases = cases_of_world(cases, member.num_ranks)
        over_ranks = tuple(case for case in cases if setup.workloads[case.workload].has_ranks)
        if not over_ranks:
            named = ", ".join(dict.fromkeys(case.family for case in cases))
            raise UsageError(f"{named}: no case runs over ranks; name a family that does, or none")
        setup = setup.with_cases(over_ranks)
        mail.put("world", [hello.member for hello in hellos])
        os.environ[launch.VARIABLE] = "1"
        return answer(options, setup, measure(setup), "torchrun ... -m hostbench.ranks")
    finally:
        launch.dismiss(mail, member.num_ranks)
