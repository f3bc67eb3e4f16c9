"""The archive: the immutable record of one finished or interrupted run.

`results/<machine>/runs/<run_id>.json.gz`: a run under the one key `hostbench`. asv ignores the
name's ending. Older archives have asv's rows beside it, which nobody reads.
"""

import errno
import json
import time
import zlib
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins

from hostbench.core import files, journal
from hostbench.core.errors import DataError, HostbenchError, Warn
from hostbench.core.records import DAMAGE, FORMAT, Run

SUFFIX = ".json.gz"
READERS_WAIT_S = 600.0
"""Since the last line of a journal: on a shared disk another host's lock may not be seen."""


def path_of(results: Path, run: Run) -> Path:
    return results / run.header.machine / "runs" / f"{run.header.run_id}{SUFFIX}"


def write(results: Path, run: Run) -> Path:
    """Archive a run. An archive is never overwritten: the same run again is left as it is."""
    path = path_of(results, run)
    if not path.exists():
        files.write_atomic(path, packed({"hostbench": to_builtins(run)}))
    return path


def packed(content: Any) -> bytes:
    """JSON's bytes: the same for the same content, whatever the time and the Python."""
    text = json.dumps(content, separators=(",", ":")).encode()
    return zlib.compress(text, level=9, wbits=31)  # gzip, whose own module writes other headers


def adopt_orphans(results: Path, warn: Warn, *, untouched_s: float = 0.0) -> list[Run]:
    """Archive every journal whose writer is gone: of runs that were killed, which is said, and
    whole ones, as asv leaves them. An unreadable one is named and left alone, and one that is not
    whole and was written to within `untouched_s`."""
    adopted = []
    for path in journal.find(results):
        try:
            if journal.is_alive(path):
                continue
            run = journal.read(path)
            if not run.finish and time.time() - path.stat().st_mtime < untouched_s:
                continue
            if not run.records:
                path.unlink(missing_ok=True)  # killed before its first case: nothing to keep
                continue
            write(results, run)
            path.unlink(missing_ok=True)
            adopted.append(run)
            if not run.is_complete:
                warn(f"archived run {run.run_id} as far as it got before it was killed")
        except FileNotFoundError:
            continue  # another process adopted it meanwhile
        except HostbenchError as error:
            warn(str(error))
        except (OSError, *DAMAGE) as error:  # lines may be right one by one, and together no run
            warn(f"{path} is not a readable journal ({error}); move it away")
    return adopted


def read(path: Path, content: bytes | None = None) -> Run:
    """The run in an archive, of which the `content` may be at hand; what a newer hostbench says
    besides is left out.

    Raises DataError, which names `path`, where there is none, or none that this hostbench can read.
    """
    try:
        content = files.read_stored(path, path.parents[2]) if content is None else content
        data = files.load_json(files.unpack(content))["hostbench"]
        if data["format"] != FORMAT:
            raise ValueError(
                f"format {data['format']!r:.20}, this hostbench reads {FORMAT}: update it if a "
                "newer one wrote this"
            )
        run = convert(data, Run)
        if (num := len(run.header.planned)) > files.MAX_POINTS:
            limit = f"more than the {files.MAX_POINTS:,} that are read of a file"
            raise files.RefusedFileError(
                errno.EFBIG, f"it plans {num:,} cases, {limit}: keep it elsewhere"
            )
        return run
    except (OSError, *DAMAGE) as error:
        raise DataError(files.damaged(path, error)) from error
