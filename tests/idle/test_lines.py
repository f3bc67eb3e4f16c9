"""Whose line it is: the user's before an installed package's; never torch's or Python's own."""

from pathlib import Path

import pytest

from hostbench.idle.summary import idle_report
from tests.made_trace import MadeTrace


def line_of_a_wait(folder: Path, *frames: str, stack: str | None = None) -> tuple[str, int] | None:
    """In a trace whose frames lie in each other, the outermost first."""
    made = MadeTrace()
    made.kernel((0, 5), (10, 110))
    made.op("aten::item", (18, 120), **({"Call stack": stack} if stack else {}))
    made.sync((20, 115))
    for depth, frame in enumerate(frames):
        made.frame(frame, (depth, 200 - depth))
    made.kernel((170, 175), (180, 300))
    (line,) = idle_report([made.write(folder / "trace.json")]).syncs
    return None if line.file is None or line.line is None else (line.file, line.line)


@pytest.mark.parametrize(
    "file",
    [
        "code/train.py",
        "platform/loop.py",
        "types/step.py",
        "json/step.py",
        "src/torch/train.py",
        "/workspace/torch/train.py",
        "/home/me/torchvision/train.py",
        "<ipython-input-3-abc>",
        "<stdin>",
        "test.py",
        "json/" + 300 * "x" + ".py",
    ],
)
def test_a_file_of_the_users(file: str, tmp_path: Path) -> None:
    assert line_of_a_wait(tmp_path, "main.py(1): main", f"{file}(5): step") == (file, 5)
    assert line_of_a_wait(tmp_path, stack=f"{file}(5): step;main.py(1): main") == (file, 5)


@pytest.mark.parametrize(
    "file",
    [
        "torch/nn/modules/module.py",
        "/env/lib/python3.9/site-packages/torch/_tensor.py",
        "site-packages/torch/_tensor.py",
        "torchvision/models/resnet.py",
        "/src/hostbench/idle/lines.py",
        "threading.py",
        "json/decoder.py",
        "/usr/lib/python3.9/code.py",
        "<frozen importlib._bootstrap>",
        "<string>",
    ],
)
def test_a_file_of_torch_or_python(file: str, tmp_path: Path) -> None:
    assert line_of_a_wait(tmp_path, "main.py(1): main", f"{file}(5): step") == ("main.py", 1)
    stack = f"{file}(5): step;main.py(1): main"
    assert line_of_a_wait(tmp_path, stack=stack) == ("main.py", 1)


@pytest.mark.parametrize("where", ["site-packages", "/env/lib/python3.12/site-packages"])
def test_a_package_comes_behind_the_user(where: str, tmp_path: Path) -> None:
    package = f"{where}/lightning/loop.py"
    frames = ["train.py(3): main", f"{package}(50): run"]
    assert line_of_a_wait(tmp_path, *frames) == ("train.py", 3)
    assert line_of_a_wait(tmp_path, *frames, "train.py(9): step") == ("train.py", 9)
    assert line_of_a_wait(tmp_path, stack=";".join(reversed(frames))) == ("train.py", 3)
    assert line_of_a_wait(tmp_path, *frames[1:]) == (package, 50)
