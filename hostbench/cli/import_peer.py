"""`hostbench import`: keep what another tool measured on a machine, beside our own points."""

import sys
from argparse import Namespace

from hostbench import facts
from hostbench.cli.places import results_folder
from hostbench.errors import EXIT_OK, UsageError
from hostbench.facts.machine import checked_name
from hostbench.store import peers
from hostbench.units import parse_bytes


def execute(args: Namespace) -> int:
    """Keep one file that `nvbandwidth -j` printed. The same file again changes nothing."""
    size = None if args.buffer_size is None else _size(args.buffer_size)
    folder = results_folder(args)
    machine = _machine(args)
    path, added = peers.add(folder, machine, args.file, size)
    if not added:
        print(f"{args.file} is there already, as {path}: nothing changed")
        return EXIT_OK
    print(f"kept {args.file} as {path}, without host names; it is never taken for a run of ours")
    if size is None:
        print(
            "hostbench: nvbandwidth does not tell its buffer size, so seconds stay unknown; "
            "--buffer-size 512MiB (its default) would tell it",
            file=sys.stderr,
        )
    return EXIT_OK


def _machine(args: Namespace) -> str:
    if args.machine is not None:
        return checked_name(args.machine, "--machine")
    return facts.machine_name(None, facts.collect())


def _size(text: str) -> int:
    try:
        size = parse_bytes(text)
    except ValueError:
        size = 0
    if size <= 0:
        raise UsageError(f"--buffer-size {text!r} is no size: write it like 512MiB")
    return size
