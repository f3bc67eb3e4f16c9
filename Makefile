# `make` lists the targets. PYTHON=... chooses the Python, TORCH_INDEX=URL the build of torch.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help bench test check soak gpu-check dashboard clean

BIN := .venv/bin

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

bench: ## measure this machine in two or three minutes and print the answer
	@scripts/make-env bench dashboard
	@$(BIN)/hostbench run --quick

# Files side by side, three on two cores: many tests wait for processes. JOBS=0 runs them one after
# the other. Folders with files that take long come first (tests/conftest.py).
# Bytecode is written, whatever the environment says: some hundred processes import hostbench.
test: ## run the tests
	@scripts/make-env bench dashboard dev
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n $(or $(JOBS),3) --dist loadfile --no-loadscope-reorder

check: ## lint, format, types and spelling
	@scripts/make-env bench dashboard dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/codespell

soak: ## run the tests that have a long form, in their long form
	@scripts/make-env bench dashboard dev
	@HOSTBENCH_SOAK=1 $(BIN)/python -m pytest -q -m soak

# USE=python3 takes that Python as it is: for a GPU machine without a network.
gpu-check: ## everything that only a GPU can show, in one report under out/gpu-check
	@$(if $(USE),,scripts/make-env bench dev)
	@scripts/gpu-check $(or $(USE),$(BIN)/python)

dashboard: ## open the dashboard
	@scripts/make-env bench dashboard
	@$(BIN)/hostbench dashboard

clean: ## remove what was built; results/ and .venv stay
	@rm -rf build dist out *.egg-info .asv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find hostbench benchmarks dashboard tests -name __pycache__ -type d -prune -exec rm -rf {} +
