# make run and make test need Python 3.11+ and the package index, nothing else.
ifndef PYTHON  # a shell a call is too much: once
PYTHON := $(shell sh packaging/python.sh)
endif
VENV := .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE  # compiled modules are what starts quickly
RUN_HOME ?= $(if $(PALINURUS_HOME),$(PALINURUS_HOME),$(HOME)/.palinurus)

.PHONY: web docs wheel release screenshots run test quick check seeds config-report bench torture torture-sweep torture-long torture-slow torture-faults torture-mutants torture-soak torture-replay torture-fleet torture-local torture-gate compat dojo local clean

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Palinurus needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing …"; $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[tui]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing what the tests need …"; $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.web: $(VENV)/.core $(shell find web -path web/node_modules -prune -o -path web/.node -prune -o -type f -print 2>/dev/null)
	@echo "building the web page …"; $(BIN)/python web/build.py && touch $@

web: $(VENV)/.web  ## build the web page (npm, or the Node that the package index carries)

$(VENV)/.docs: $(VENV)/.core web/docs.py $(wildcard web/docs/*) $(shell find docs -name '*.md' -o -name nav.txt)
	@$(BIN)/python web/docs.py && touch $@

docs: $(VENV)/.docs  ## the site of the docs, which the gateway serves at /docs; says what leads nowhere

wheel: web docs  ## dist/palinurus-VERSION-py3-none-any.whl, with the page and the docs inside: needs no npm where it is installed
	@rm -rf dist && $(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps -w dist . && ls dist/*.whl

$(VENV)/release/.ready: $(VENV)/.core Makefile
	@$(PYTHON) -m venv $(VENV)/release && $(VENV)/release/bin/python -m pip install -q --disable-pip-version-check hatchling==1.33.0 check-jsonschema==0.39.0 && touch $@

release: web docs $(VENV)/release/.ready  ## dist/: sdist, wheel, bill of materials, checksums; built twice, compared, installed and tried
	@$(VENV)/release/bin/python packaging/release.py

run: $(VENV)/.core  ## set up and start the gateway
	@$(MAKE) -s web docs || true
	@$(BIN)/python -m compileall -q src  # a running gateway keeps no compiled module: its disk may be full
	@$(BIN)/pal setup --non-interactive
	@exec $(BIN)/pal gateway

CREW ?= 10  # processes on two cores: many tests wait
test: $(VENV)/.dev  ## the whole suite
	@$(MAKE) -s web || true
	@$(BIN)/python -m pytest --crew $(CREW) --tables --aim 150 $(ARGS)

quick: $(VENV)/.dev  ## the inner loop: rules of the tree, pure cores, one flow of each area
	@$(BIN)/python -m pytest --crew $(CREW) --tables --aim 30 @tests/quick.txt $(ARGS)

check: $(VENV)/.dev  ## format, lint, types, architecture
	$(BIN)/ruff format --check src tests bench web packaging
	$(BIN)/ruff check src tests bench web packaging
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

seeds: $(VENV)/.dev  ## which lines of the seeds no passing test covers
	@$(BIN)/python -m pytest --crew $(CREW) -q --no-header --seeds=$(VENV)/seeds.json >$(VENV)/seeds.log || (tail -30 $(VENV)/seeds.log; exit 1)
	@$(BIN)/python tests/seeds/report.py $(VENV)/seeds.json

screenshots: $(VENV)/.dev web  ## the pictures of docs/web.md, docs/chat.md and the README, the screens of docs/day.md: with chromium and tmux
	@PYTHONPATH=tests $(BIN)/python tests/web/screenshots.py docs/web
	@PYTHONPATH=tests $(BIN)/python tests/cli/tui/screenshots.py docs/chat
	@PYTHONPATH=tests $(BIN)/python tests/cli/tui/day.py docs/day.md
	@$(BIN)/python packaging/film.py docs/first-minute.svg

config-report: $(VENV)/.dev  ## what becomes of the keys that OpenClaw documents: acting, known and not acted on, unknown
	@PYTHONPATH=tests $(BIN)/python tests/config_report.py $(ARGS)

bench: $(VENV)/.dev  ## measured figures next to their targets; ARGS=--gate: is anything dearer than it was; ARGS=--readme
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python bench/run.py $(ARGS)

PART ?= sweep long slow faults mutants soak replay fleet local gate
torture: $(addprefix torture-,$(PART))  ## kill -9 everywhere, long tests, mutants of the shells, a soak, AgentDojo; PART=mutants ARGS=dispatch picks

torture-sweep: $(VENV)/.dev  # kill -9 at every point of every scenario, in one piece; says at its end what was lost
	@$(BIN)/python -m pytest -n 2 -q --torture -m torture tests/crash $(ARGS)

torture-long: $(VENV)/.dev  # the other long tests, and properties with more examples
	@$(BIN)/python -m pytest -n 2 --torture -m "torture or hypothesis" --ignore=tests/crash $(ARGS)

torture-slow: $(VENV)/.dev  # whole flows on a store that takes its time, as one over a network does; SEED=7
	@$(BIN)/python -m pytest -n 2 -q --slow-store $(or $(SEED),1) tests/flow $(ARGS)

torture-faults: $(VENV)/.dev  # each fix of the faults once proved is taken back: which test notices; ARGS: numbers of faults
	@$(BIN)/python tests/torture/faults.py $(ARGS)

torture-mutants: $(VENV)/.dev  # which changes to the durable shells no test notices; ARGS: names of files, --every N, --jobs 2
	@$(BIN)/python tests/torture/hunt.py $(ARGS)

torture-soak: $(VENV)/.dev  # mixed load with random kill -9; ARGS="--minutes 5"
	@$(BIN)/python tests/torture/soak.py $(ARGS)

torture-replay: $(VENV)/.dev  # every run of every flow test, recorded and played again with sockets closed
	@$(MAKE) -s web || true
	@$(BIN)/python -m pytest --crew $(CREW) -q --replay tests/flow --ignore=tests/flow/test_replay.py $(ARGS)

torture-fleet: $(VENV)/.dev  # three gateways on one PostgreSQL: every harm against every load; ARGS="--harms kill,drop --loads chat --seeds 1,2", --mixed, --log FILE
	@$(BIN)/python tests/torture/fleet/run.py $(ARGS)

torture-local: $(VENV)/.dev  # runs of a real model on this machine, recorded and played again offline; ARGS: names of models
	@$(BIN)/python tests/torture/local.py $(ARGS)

torture-gate: $(VENV)/dojo/.ready  # AgentDojo's banking and slack in every setting
	@$(VENV)/dojo/bin/python bench/dojo/run.py --all --suites banking,slack

$(VENV)/dojo/.ready: $(VENV)/.core
	@$(PYTHON) -m venv $(VENV)/dojo && $(VENV)/dojo/bin/python -m pip install -q --disable-pip-version-check agentdojo==0.1.35 -e . && touch $@

dojo: $(VENV)/dojo/.ready  ## AgentDojo on the real product: attacks, tasks unasked, questions; goes on where it was stopped. ARGS="--all --minutes 8", --quick, --rules, --show; JOBS=2: rows side by side
	@$(VENV)/dojo/bin/python bench/dojo/$(if $(JOBS),table.py $(JOBS) $(ARGS),run.py $(or $(ARGS),--all))

local: $(VENV)/.dev  ## thirty plain requests to a model that runs here (`pal extras add local`, `pal models pull` first); ARGS="--only list,edit", --calls text
	@$(BIN)/python bench/trial.py $(ARGS)

compat: $(VENV)/.dev  ## real clients and servers against our gateway, one table (what is not installed is said); ARGS="tui cli" picks rows
	@$(BIN)/python compat/run.py $(ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis web/node_modules web/.node src/palinurus/gateway/static src/palinurus/gateway/site dist
