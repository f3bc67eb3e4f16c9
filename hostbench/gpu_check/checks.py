"""The table of checks, in order of worth."""

from hostbench.gpu_check import copies, load, machine, nvml, probe, programs
from hostbench.gpu_check.record import Check

MACHINE = Check(
    name="machine",
    question="What is this machine, and does CUDA work on it?",
    ask=machine.machine,
    budget_s=60,
)

CHECKS = (
    Check(
        name="tests",
        question="Does the cuda device keep the protocol?",
        ask=programs.gpu_tests,
        budget_s=120,
    ),
    Check(
        name="run",
        question="Does hostbench measure every CUDA case, up to three launches each?",
        ask=programs.hostbench_run,
        budget_s=240,
    ),
    Check(
        name="observing_pass",
        question="Are the copies what the cases declare, and does the link count their bytes?",
        ask=programs.observing_pass,
        budget_s=75,
    ),
    Check(
        name="delay_probe",
        question="Which copies return before the stream gets to them?",
        ask=probe.delay_probe,
        budget_s=60,
    ),
    Check(
        name="rates",
        question="How near are pinned copies to the published 55.4 and 55.1 GB/s?",
        ask=copies.rates,
        budget_s=30,
    ),
    Check(
        name="pcie_bytes",
        question="Do NVML fields 197/198 count the bytes of a known copy, and only upwards?",
        ask=nvml.pcie_bytes,
        budget_s=30,
    ),
    Check(
        name="link",
        question="Which link generation and width does NVML show idle and under load?",
        ask=load.link,
        budget_s=30,
    ),
    Check(
        name="profiler_names",
        question="May CUPTI be used here, and what does Kineto call each copy?",
        ask=copies.profiler_names,
        budget_s=45,
    ),
    Check(
        name="throttle_times",
        question="Are the throttled nanoseconds readable?",
        ask=nvml.throttle_times,
        budget_s=20,
    ),
    Check(
        name="protection",
        question="Is confidential computing on, and is this a virtual machine?",
        ask=nvml.protection,
        budget_s=20,
    ),
    Check(
        name="numa_node",
        question="Which NUMA node is the GPU on?",
        ask=machine.numa_node,
        budget_s=20,
    ),
    Check(name="gpm", question="Does GPM work without root?", ask=load.gpm, budget_s=20),
    Check(
        name="accelerator_graph",
        question="Does torch.accelerator.Graph work on CUDA?",
        ask=copies.accelerator_graph,
        budget_s=20,
    ),
)
