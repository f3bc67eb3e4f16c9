"""A big asv results tree, made fast: what asv would have written for many machines and commits."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
COLUMNS = (
    "result params version started_at duration stats_ci_99_a stats_ci_99_b stats_q_25 stats_q_75 "
    "stats_number stats_repeat samples profile"
).split()
NUM_BENCHMARKS = 200
LEVELS = (("'small'", "'medium'", "'large'"), ("'pageable'", "'pinned'"))


def params_of(number: int) -> list[list[str]]:
    """940 values over 200 benchmarks: 148 with six, 52 with one."""
    return [list(level) for level in LEVELS] if number < 148 else []


def series_of(number: int) -> int:
    return math.prod(map(len, params_of(number)))


def benchmarks() -> dict[str, object]:
    found: dict[str, object] = {"version": 2}
    for number in range(NUM_BENCHMARKS):
        name = f"suite_{number % 10}.Bench{number}.time_it"
        found[name] = {
            "code": "def time_it(self): ...",
            "name": name,
            "param_names": ["size", "memory"] if params_of(number) else [],
            "params": params_of(number),
            "type": "time",
            "unit": "seconds",
            "version": "1",
        }
    return found


def write(
    results: Path, commits: Sequence[str], machines: Sequence[str], seed: int = 1
) -> list[Path]:
    """One file for each machine and commit; noise of 2 %, and steps of 10 % now and then."""
    results.mkdir(parents=True, exist_ok=True)
    (results / "benchmarks.json").write_text(json.dumps(benchmarks(), indent=4))
    written = []
    for place, machine in enumerate(machines):
        random_ = random.Random(seed * 1000 + place)
        folder = results / machine
        folder.mkdir(exist_ok=True)
        entry = {"machine": machine, "cpu": f"CPU {place}", "os": "Linux", "version": 1}
        (folder / "machine.json").write_text(json.dumps(entry))
        level = [1e-3 * 10 ** random_.uniform(-2, 2) for _ in range(NUM_BENCHMARKS)]
        for number, commit in enumerate(commits):
            for benchmark in range(NUM_BENCHMARKS):
                if random_.random() < 0.002:
                    level[benchmark] *= random_.choice((0.9, 1.1))
            path = folder / f"{commit[:8]}-virtualenv-py3.11.json"
            path.write_text(_file(machine, commit, number, level, random_))
            written.append(path)
    return written


def _file(
    machine: str, commit: str, number: int, level: list[float], random_: random.Random
) -> str:
    date = START_MS + number * DAY_MS
    results = {}
    for benchmark, base in enumerate(level):
        num = series_of(benchmark)
        values = [base * random_.lognormvariate(0, 0.02) for _ in range(num)]
        low, high = ([float(f"{v * by:.5g}") for v in values] for by in (0.98, 1.02))
        row: list[object] = [values, params_of(benchmark), "1", date + benchmark * 1000, 1.5]
        row += [low, high, low, high, [1] * num, [10] * num]
        results[f"suite_{benchmark % 10}.Bench{benchmark}.time_it"] = row
    data = {
        "commit_hash": commit,
        "env_name": "virtualenv-py3.11",
        "date": date,
        "params": {"machine": machine, "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": results,
        "durations": {},
        "version": 2,
    }
    return json.dumps(data)
