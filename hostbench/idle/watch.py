"""`with hostbench.watch():` around some steps of a program: the answer of `hostbench idle`."""

import tempfile
from pathlib import Path

from hostbench.core.errors import UsageError
from hostbench.idle.recording import Session, on_first_steps
from hostbench.idle.report import IdleReport
from hostbench.idle.summary import idle_report
from hostbench.idle.words import blocks
from hostbench.report.write import text


class watch:
    """Records what runs inside with torch's profiler, and prints whether the GPU idled and why.

        with hostbench.watch() as watched:
            for batch in loader:
                train_step(batch)
        watched.report.devices[0].idle_fraction

    A step is one of the optimizer that steps first; `watched.step()` marks one where none does.
    `show=False` prints nothing, `trace=FILE` keeps the trace.
    """

    report: IdleReport
    """Once the block has ended without an error."""

    def __init__(self, *, show: bool = True, trace: str | Path | None = None) -> None:
        self._show, self._trace = show, trace

    def __enter__(self) -> "watch":
        """Raises UsageError where a profiler runs already, and where the trace cannot be kept."""
        if self._trace is not None and not Path(self._trace).parent.is_dir():
            raise UsageError(f"cannot write {self._trace}: there is no such folder")
        try:
            self._session = Session()
        except RuntimeError as error:
            raise UsageError(f"torch's profiler does not start: {error}") from error
        self._hook = on_first_steps(self.step)
        return self

    def step(self) -> None:
        """A step ends here, and the next begins."""
        self._session.step()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._hook.remove()
        if kind is not None:
            self._session.stop()
            return
        with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
            path = Path(self._trace or Path(folder) / "trace.json")
            self._session.stop(path)
            self.report = idle_report([path])
        if self._show:
            print(text(blocks(self.report)))
