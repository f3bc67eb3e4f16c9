"""`hostbench import`: another results tree, or what another tool measured, beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostbench import facts
from hostbench.cli.output import warn
from hostbench.cli.page import show_page
from hostbench.cli.results import results_folder
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, NothingMeasured, UsageError
from hostbench.core.units import number_of
from hostbench.facts.machine import checked_name
from hostbench.report.table import Cell, Column, Table
from hostbench.runner.places import CONFIG, asv_results
from hostbench.store import bring, peers
from hostbench.store.bring import Brought

COLUMNS = (
    Column(title="machine", keys=("machine",)),
    Column(title="new", keys=("new",), right=True),
    Column(title="already there", keys=("already_there",), right=True),
    Column(title="kept as they are here", keys=("kept",), right=True),
    Column(title="left behind", keys=("left_behind",), right=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    file: Path
    buffer_size: int | None
    machine: str | None
    format: str
    results: str | None


def execute(options: ImportOptions) -> int:
    """Copy a results tree, or keep one file of `nvbandwidth -j`. Again, it changes nothing."""
    name = None if options.machine is None else checked_name(options.machine, "--machine")
    if options.file.is_dir():
        if options.buffer_size is not None:
            raise UsageError(
                f"--buffer-size is for a file of nvbandwidth, {options.file} is a folder"
            )
        return _tree(options.file, results_folder(options.results), name, options.format)
    done = Brought(machine=name or facts.machine_name(None, facts.collect()))
    path, added = peers.add(
        results_folder(options.results), done.machine, options.file, options.buffer_size
    )
    (done.new if added else done.there).append(path)
    line = f"{options.file} is there already, as {path}: nothing changed"
    if added:
        line = f"kept {options.file} as {path}, without host names; it is never taken for our run"
    _show(options.format, [done], [line])
    if added and options.buffer_size is None:
        warn(
            "nvbandwidth does not tell its buffer size, so seconds stay unknown; "
            "--buffer-size 512MiB (its default) would tell it"
        )
    return EXIT_OK


def _tree(path: Path, results: Path, machine: str | None, form: str) -> int:
    """Exit code 4 where something could not be read and was left behind."""
    tree = _results_of(path)
    every = list(bring.bring(results, tree, machine))
    for done in every:
        for path in done.other:
            warn(f"{path} differs from the file of that name here, which stays")
        for text in done.refused:
            warn(text)
    _show(form, every, [_line(done) for done in every])
    journals = len(list(tree.rglob("*.journal.jsonl")))
    if journals:
        warn(
            f"{number_of(journals, 'run')} in progress left out: `hostbench run` archives them "
            "there"
        )
    return EXIT_FAILED if any(done.refused for done in every) else EXIT_OK


def _show(form: str, every: Sequence[Brought], lines: Sequence[str]) -> None:
    table = Table(columns=COLUMNS, rows=tuple(map(_row, every)))
    show_page(form, lambda: [table] if form == "md" else lines, lambda: table)


def _line(done: Brought) -> str:
    said = [f"{len(done.new)} new", f"{len(done.there)} already there"]
    said += [f"{len(done.other)} kept as they are here"] if done.other else []
    said += [f"{len(done.refused)} left behind"] if done.refused else []
    return f"{done.machine}: {', '.join(said)}"


def _row(done: Brought) -> tuple[str | Cell, ...]:
    counts = (len(files) for files in (done.new, done.there, done.other, done.refused))
    return (done.machine, *(Cell(str(num), (num,)) for num in counts))


def _results_of(path: Path) -> Path:
    """A checkout's results folder, or the folder itself."""
    tree = asv_results(path) if (path / CONFIG).is_file() else path
    if not bring.is_tree(tree) and bring.is_tree(path / "results"):
        tree = path / "results"
    if not bring.is_tree(tree):
        raise NothingMeasured(
            f"{tree} holds no results of any machine: name a folder like results/, with "
            "<machine>/*.json below it, or a checkout that has one"
        )
    return tree
