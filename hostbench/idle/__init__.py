"""Is my GPU idle, and why? From a trace of PyTorch's profiler (Kineto), read or recorded here."""
