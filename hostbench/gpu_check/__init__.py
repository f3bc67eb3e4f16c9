"""`python -m hostbench.gpu_check -o DIR`: one command that asks a GPU every open question.

CUDA code is mostly written where there is no GPU. This is what to run on the day there is one: the
GPU tests, the delay probe, three launches of every CUDA case and a list of facts to verify, each in
a process of its own, in order of worth, in under ten minutes. It writes DIR/report.md and
DIR/report.json; the log of each check lies beside them.
"""
