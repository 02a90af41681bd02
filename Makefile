# make run and make test need Python 3.11+ and the package index, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_HOME ?= $(if $(PALINURUS_HOME),$(PALINURUS_HOME),$(HOME)/.palinurus)

.PHONY: run test check seeds bench torture clean

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Palinurus needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing …"; $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing what the tests need …"; $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: $(VENV)/.core  ## set up and start the gateway
	@$(BIN)/pal setup --non-interactive
	@exec $(BIN)/pal gateway

test: $(VENV)/.dev  ## the whole suite
	@$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(VENV)/.dev  ## format, lint, types, architecture
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

seeds: $(VENV)/.dev  ## which lines of the seeds no passing test covers
	@$(BIN)/python -m pytest -n 2 -q --no-header --seeds=$(VENV)/seeds.json >$(VENV)/seeds.log || (tail -30 $(VENV)/seeds.log; exit 1)
	@$(BIN)/python tests/seeds/report.py $(VENV)/seeds.json

bench: $(VENV)/.dev  ## measured figures next to their targets
	@$(BIN)/python bench/run.py $(ARGS)

torture: $(VENV)/.dev  ## the crash sweep and other long ones
	@$(BIN)/python -m pytest -n 2 --torture -m torture $(ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
