"""A workload of your own. It measures example_model.py of each commit; this file is always that of
the working tree. Write what else you want to time the same way: only the step is timed.
"""

from hostbench import DEVICES, Prepared, suite, workload


def setup_cache():
    """asv calls it: the cases of this file are measured together."""
    return suite.measure("steps")


@workload(
    axes={"device": DEVICES, "num_examples": (32, 256)},
    quick=lambda **_: True,
    version="1",  # another one when the numbers stop being comparable
)
def train(device, num_examples):
    """A step of training on a batch: forward, backward, update. Timed: the step."""
    import example_model  # here: commands that measure nothing need not load torch

    step = example_model.step_of_training(device.torch_device, num_examples)
    first = step().item()

    def verify():
        last = step().item()
        return None if last < first else f"the loss was {first:.3f}, and is {last:.3f}"

    return Prepared(step=step, verify=verify)


PRELOAD = ("torch._dynamo",)  # an optimizer loads it: once, and not anew for each launch
