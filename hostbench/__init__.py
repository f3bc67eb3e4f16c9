"""hostbench: what each habit of feeding a GPU costs, on your machine and over time.

Importing this package touches no torch, no NVML and no clock.
"""

__version__ = "0.1.0"
