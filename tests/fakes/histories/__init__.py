"""Trees of results whose changes are known; `docs/simulation.md`. Nothing in them is measured."""
