"""A machine with GPUs where there is none: `torch.cuda` on a virtual clock, for tests.

    with installed(Machine(num_gpus=2)) as floor:
        device = CudaDevice()

`installed` is in `bindings`, `Machine` in `timeline`. Times are the virtual clock's and no
measurement. What a real GPU would do to the data of a program that forgets to wait, this one
reports as a `DataRace`.
"""
