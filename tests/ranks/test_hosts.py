"""Ranks that a launcher starts: two real agents on this machine, by the way of each launcher."""

import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch.distributed as dist

from hostbench.core.case import Case
from hostbench.core.errors import DeviceLost, HostbenchError, UsageError
from hostbench.families import load
from hostbench.ranks import launch
from hostbench.ranks.launch import Mail, greet
from hostbench.ranks.rank import GroupConfig
from hostbench.ranks.world import Hello, Member, require_alike
from hostbench.runner.plan import cases_of_world, choose
from hostbench.store.limits import with_limits
from hostbench.store.points import case_rows
from hostbench.store.runs import facts_by_when
from tests.commands import free_port
from tests.ranks.conftest import cases, culprit_of
from tests.runner.test_faults import KILLED
from tests.scratch import Scratch
from tests.stored import only_run, read_tree

MODULE = ("-m", "hostbench.ranks")
IN_NAMESPACES = """
set -e
mount -t tmpfs none /run && mkdir /run/netns
printf '127.0.0.1 localhost\\n10.77.0.1 nodea\\n10.77.0.2 nodeb\\n' > /run/hosts
mount --bind /run/hosts /etc/hosts
ip netns add a; ip netns add b
ip link add va type veth peer name vb
ip link set va netns a; ip link set vb netns b
ip -n a addr add 10.77.0.1/24 dev va; ip -n b addr add 10.77.0.2/24 dev vb
for name in a b; do ip -n $name link set lo up; ip -n $name link set v$name up; done
start() {
    GLOO_SOCKET_IFNAME=v$1 ip netns exec $1 unshare --uts sh -c \\
        "hostname node$1; exec \\"\\$@\\"" - "$python" -m torch.distributed.run --nnodes=2 \\
        --nproc-per-node=$3 --master-addr 10.77.0.1 --master-port 29500 --node-rank $2 \\
        -m hostbench.ranks --launches 1 --deadline 10 --results "$results" \\
        --case 'faulty.go[kind=killed]' --case 'collectives.all_reduce[nbytes=4KiB]'
}
start b 1 2 > /dev/null 2>&1 &
start a 0 1
"""


def test_who_fails_is_named_with_its_host_and_who_is_gone_ends_the_run(
    checkout: Scratch, results: Path
) -> None:
    """By srun's variables. In its second launch rank 1's agent is killed; else who is drawn."""
    seed, host = random.randrange(2**16), socket.gethostname()
    kinds = cases("fine killed gone")
    words = (*MODULE, *kinds, "--launches=2", "--deadline=5", f"--results={results}")
    where = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": f"{free_port()}",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    where |= {"SLURM_NTASKS": "2", "SEED": f"{seed}"}
    running = [
        checkout.start(*words, **where, SLURM_PROCID=rank, SLURM_LOCALID=rank) for rank in "01"
    ]
    text, _ = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [4, -9], text
    assert f"no agent answers for rank 1 on {host}: it or its host is gone" in text
    assert "device lost; what was measured is stored" in text
    run = only_run(results)
    assert run.header.machine.startswith("1x2x-")
    outcomes = {
        (row["num_ranks"], row["kind"]): (row["status"], str(row["reason"]))
        for row in case_rows(run)
    }
    status, text = outcomes[2, "killed"]
    name = f"rank {culprit_of('killed', 2, seed)} on {host}"
    assert status == "failed"
    assert text.startswith(f"{name} was lost: {KILLED}; after barrier"), (seed, text)
    for kind in ("fine", "gone"):
        assert outcomes[2, kind] == ("ok", "None")
        other_number = "for another number of ranks; the launcher started 2"
        assert outcomes[4, kind] == ("skipped", other_number)


@pytest.mark.parametrize(
    ("second", "error"),
    [
        ({}, None),
        ({"hostbench": "0.0"}, "rank 1 on b has hostbench: 0.0, rank 0 on a 1.0: every host"),
        ({"wrong": "unknown family 'x'"}, "rank 1 on b: unknown family 'x'"),
        ({"collectives.go": "a case"}, "rank 1 on b has collectives.go: a case, rank 0 on a none"),
        (None, "of 2 ranks these did not start within 0.5 s, or have another's number: 1"),
    ],
)
def test_who_differs_or_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, second: dict[str, str] | None, error: str | None
) -> None:
    """They arrive in any order."""
    monkeypatch.setattr(launch, "JOIN_S", 0.5)
    mail = Mail(dist.HashStore())  # type: ignore[attr-defined]
    if second is not None:
        alike = {"hostbench": "1.0", **second}
        wrong = alike.pop("wrong", "")
        mail.drop("hello", Hello(member=Member(1, 2, 1, "b", "b"), alike=alike, wrong=wrong))
    mail.drop("hello", Hello(member=Member(0, 2, 0, "a", "a"), alike={"hostbench": "1.0"}))
    with pytest.raises(HostbenchError, match=error) if error else nullcontext():
        hellos = greet(mail, 2)
        assert [hello.member.rank for hello in hellos] == [0, 1]
        require_alike(hellos)


def test_a_store_that_is_gone_is_no_error_when_all_is_said() -> None:
    """As where torchrun was killed."""
    make = dist.TCPStore  # type: ignore[attr-defined]
    server = make("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    mail = Mail(make("127.0.0.1", server.port, wait_for_workers=False))
    del server
    with pytest.raises(dist.DistNetworkError):
        mail.drop("message", ("end",))
    launch.dismiss(mail, 2)


def test_a_store_that_is_gone_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No case is to blame for it."""
    make = dist.TCPStore  # type: ignore[attr-defined]
    server = make("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    store = make("127.0.0.1", server.port, wait_for_workers=False)
    monkeypatch.setattr(launch, "connect", lambda member: store)
    for name, text in _environ(WORLD_SIZE="1").items():
        monkeypatch.setenv(name, text)
    Mail(store).put("world", [Member(0, 1, 0, "a", "a")])
    agents = launch.Agents(GroupConfig("cpu", "gloo", 1, 10.0))
    del server
    with pytest.raises(DeviceLost, match="the launcher's store is gone, with it the ranks"):
        agents.ask(time.monotonic() + 5.0, "join", False)
    agents.close()


@pytest.mark.namespace
def test_two_hosts_are_a_machine_of_their_own(checkout: Scratch, results: Path) -> None:
    """By torchrun, each in a network namespace, with a name. No workload declares as many as their
    3 ranks."""
    enter = ("unshare", "--net", "--mount", *(["--user", "--map-root-user"] * (os.getuid() != 0)))
    if not (shutil.which("ip") and shutil.which("unshare")):
        pytest.skip("no ip or no unshare: install iproute2 and util-linux")
    if subprocess.run([*enter, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system allows no network namespaces")
    seed = random.randrange(2**16)
    done = subprocess.run(
        [*enter, "sh", "-c", IN_NAMESPACES],
        cwd=checkout.root,
        env=checkout.env(python=sys.executable, results=str(results), SEED=f"{seed}"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert results.exists(), done.stderr
    run = only_run(results)
    assert re.match("1x1x-.*-1x2x-", run.header.machine)
    own, other = run.facts["before"], run.facts["host 2"]
    assert own["host"]["cpu_model"] == other["host"]["cpu_model"]
    killed, summed = sorted(run.records, key=lambda record: record.status)
    culprit = culprit_of("killed", 3, seed)
    name = f"rank {culprit} on node{'abb'[culprit]}"
    assert str(killed.reason).startswith(f"{name} was lost: {KILLED}; "), seed
    assert (summed.status, summed.case.values["num_ranks"]) == ("ok", 3)
    assert summed.measurement.proofs == {"data": "passed"}
    assert [*summed.measurement.ranks] == ["0", "1", "2"]
    facts = facts_by_when(run.facts)
    rows = with_limits(read_tree(results).frame, facts)
    assert "2 hosts: what the network between them carries is not known" in set(rows["ceiling"])
    assert "3 ranks" in done.stdout and "stored " in done.stdout
    printed = re.search(r"next +\S+ (.*?) \(everything\)", done.stdout)
    shown = checkout.python(*shlex.split(printed[1]) if printed else ())
    assert shown.returncode == 0 and run.run_id in shown.stdout, shown.stdout


def test_what_a_launcher_leaves_out_or_mistypes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are mpirun's."""
    variables = {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1"}
    environ = {f"OMPI_COMM_WORLD_{name}": text for name, text in variables.items()}
    where = {"MASTER_ADDR": "a", "MASTER_PORT": "1"}
    monkeypatch.setattr(os, "environ", environ | where)
    member = Member.from_environ()
    assert (member.rank, member.num_ranks, member.local_rank) == (3, 4, 1)
    monkeypatch.setattr(os, "environ", {"RANK": "0", "WORLD_SIZE": "2"})
    with pytest.raises(UsageError, match="no launcher has started this: write torchrun"):
        Member.from_environ()
    monkeypatch.setattr(os, "environ", environ)
    with pytest.raises(UsageError, match="MASTER_ADDR and MASTER_PORT not set: export"):
        Member.from_environ()
    monkeypatch.setattr(os, "environ", _environ(WORLD_SIZE="two"))
    with pytest.raises(UsageError, match=r"WORLD_SIZE, LOCAL_RANK: .*'two'; see docs"):
        Member.from_environ()


def _environ(**variables: str) -> dict[str, str]:
    usual = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    return {**usual, "MASTER_ADDR": "a", "MASTER_PORT": "1", **variables}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_world_of_another_size_loses_no_case(device: str) -> None:
    declared = choose(load(("collectives", "point_to_point")), device)

    def rest(case: Case) -> str:
        """All but the number of ranks, and but how far away across is."""
        is_across = case.values.get("stride", 1) != 1
        return str(Case(case.workload, {**case.values, "num_ranks": "", "stride": is_across}))

    for num_ranks in (1, 2, 3, 4, 8, 12, 16, 1024):
        cases = cases_of_world(declared, num_ranks)
        assert len(set(cases)) == len(cases)
        of_world = [case for case in cases if case.values["num_ranks"] == num_ranks]
        assert set(of_world) >= {c for c in declared if c.values["num_ranks"] == num_ranks}
        fewer = {rest(case) for case in declared if int(case.values["num_ranks"]) <= num_ranks}
        assert {rest(case) for case in of_world} == fewer
        assert set(cases) - set(of_world) <= set(declared)  # skipped: the launcher's number differs
    for num_ranks in (6, 12, 16):
        own = [c for c in cases_of_world(declared, num_ranks) if c.values["num_ranks"] == num_ranks]
        assert {case.values.get("stride", 1) for case in own} == {1, num_ranks // 2}


def test_a_case_of_one_process_is_none_of_a_world() -> None:
    alone = tuple(
        case for case in choose(load(("training",)), "cpu") if case.values["num_ranks"] == 1
    )
    assert alone and cases_of_world(alone, 2) == alone
