# SPDX-License-Identifier: MIT
# Everything a person or CI runs. Each target sets up what it needs.
PYTHON ?= python3
TRACES ?=
LOCK_PYTHON ?= 3.11

VENV := .venv
BIN := $(VENV)/bin
ENGINE := build/engine
# The lock pins the build requirements too, so neither wheel needs a build environment of its own.
PIP := $(BIN)/python -m pip --disable-pip-version-check
NPM_LOCK := packaging/dashboard/package.json packaging/dashboard/package-lock.json
DASHBOARD := serving/dashboard/static/vendor
SERVER_WHEELS := build/server-wheels
COMPOSE_SCHEMA := build/compose/compose-spec.json
UV := build/lock-tool/bin/uv
# Images of containers often set it. Each program that the tests start would then compile all its modules anew.
export PYTHONDONTWRITEBYTECODE :=
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	--python-version $(LOCK_PYTHON)

.PHONY: help setup build modules bpf packages demo test check lint format prove prove-kernel lock clean
.DEFAULT_GOAL := help
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Install everything for development: Debian packages (as root), .venv, kernels

# What the demo needs. The full environment below is this one and more, in the same folder.
$(VENV)/.demo-ready: requirements/demo.lock pyproject.toml packaging/debian-packages packaging/guest_files.py
	PYTHON=$(PYTHON) packaging/debian-packages demo
	$(PYTHON) packaging/guest_files.py mahimahi & fetching=$$!; \
	$(PYTHON) -m venv $(VENV) && $(PIP) install --quiet --no-cache-dir --no-compile --require-hashes -r requirements/demo.lock && \
		$(PIP) install --quiet --no-deps --no-build-isolation --editable . && wait $$fetching
	touch $@

# Without npm the pages of the dashboard have no scripts, and work nevertheless.
$(DASHBOARD)/.ready: $(NPM_LOCK)
	@mkdir -p build/dashboard $(DASHBOARD)
	@cp $(NPM_LOCK) build/dashboard/
	npm ci --prefix build/dashboard --ignore-scripts --no-audit --no-fund --silent
	@cd build/dashboard/node_modules && cp htmx.org/dist/htmx.min.js uplot/dist/uPlot.iife.min.js uplot/dist/uPlot.min.css \
		$(CURDIR)/$(DASHBOARD)/ && cat htmx.org/LICENSE uplot/LICENSE > $(CURDIR)/$(DASHBOARD)/LICENSES
	@touch $@

# With this schema a test compares docker-compose.yml. It is part of a Go module; without go the test is left out.
$(COMPOSE_SCHEMA):
	@mkdir -p $(@D)
	@if command -v go >/dev/null; then folder=$$(cd $(@D) && go mod download -json github.com/compose-spec/compose-go/v2@v2.9.1 | \
		sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p') && cp "$$folder/schema/compose-spec.json" $@; fi

# The Debian packages come first, because npm is among them.
$(VENV)/.ready: $(VENV)/.demo-ready $(NPM_LOCK) requirements/dev.lock requirements/agent.lock emulation/vm/kernel-lines.json
	PYTHON=$(PYTHON) packaging/debian-packages
	$(MAKE) -s $(DASHBOARD)/.ready $(COMPOSE_SCHEMA)
	$(PYTHON) packaging/guest_files.py
	$(PIP) install --quiet --require-hashes -r requirements/dev.lock
	$(PIP) download --quiet --require-hashes --no-deps -r requirements/agent.lock -d $(VENV)/agent-wheels
	touch $@

build: $(VENV)/.demo-ready ## Build the engine into emulation/
	@mkdir -p $(ENGINE)
	@test -e $(ENGINE)/build.ninja || $(BIN)/cmake -S . -B $(ENGINE) -G Ninja -DCCATUNE_IN_SOURCE=ON \
		-DCCATUNE_WERROR=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja
	@flock $(ENGINE)/lock $(BIN)/cmake --build $(ENGINE)

modules: setup build ## Build the kernel modules for each tested kernel line into build/modules
	$(BIN)/python -m emulation.vm build

bpf: ## Build the BPF objects and ccatune-bpf into build/bpf, where clang and libbpf are installed
	@mkdir -p build
	@flock build/.bpf-lock $(MAKE) -s -j2 -C kmod/bpf OUT=$(CURDIR)/build/bpf

packages: setup build bpf $(SERVER_WHEELS)/.ready ## Build the Debian packages of server, agent, modules (DKMS) and BPF into dist/
	@rm -rf build/agent-wheel dist $(SERVER_WHEELS)/ccatune-*
	@$(PIP) wheel --quiet --no-deps --no-build-isolation -w build/agent-wheel packaging/agent
	@$(PIP) wheel --quiet --no-deps --no-build-isolation -w $(SERVER_WHEELS) .
	$(BIN)/python packaging/build_packages.py --wheel build/agent-wheel/*.whl --server $(SERVER_WHEELS) --out dist

# What ccatune-server contains besides ccatune itself. Its Python is that of Debian 12.
$(SERVER_WHEELS)/.ready: requirements/server.lock
	@rm -rf $(SERVER_WHEELS)
	$(PIP) download --quiet --require-hashes --no-deps --only-binary :all: --python-version 3.11 -r $< -d $(SERVER_WHEELS)
	@touch $@

# Without ccatune-bpf the demo uses a stand-in for the kernel, and says so.
demo: build ## The whole pipeline once, in minutes (TRACES=folder for traces of your own)
	@if command -v clang-19 >/dev/null && echo '#include <bpf/libbpf.h>' | $(CC) -fsyntax-only -xc - 2>/dev/null; then \
		$(MAKE) -s bpf; fi
	$(BIN)/ccatune demo $(if $(TRACES),--traces "$(TRACES)")

test: lint check ## Set up, build, lint and run every tier that this machine can run

check: setup build ## The tests alone (ARGS="-k gr -x" to choose)
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

lint: setup build ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Lay out the Python files as `make lint` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

prove: setup build ## Campaigns too long for `make test`; resumable, repeated only when what they depend on changed
	$(BIN)/python -m tests.prove $(ARGS)

prove-kernel: setup build ## Of these the one on a debug kernel, which is built first, once, from Debian's source
	$(BIN)/python -m tests.prove kernel $(ARGS)

lock: $(UV) ## Resolve the pinned versions anew
	$(COMPILE) --upgrade --extra dev --no-emit-package ccatune -o requirements/dev.lock pyproject.toml
	$(foreach part,demo serving,$(COMPILE) --extra $(part) --no-emit-package ccatune -c requirements/dev.lock \
		-o requirements/$(part).lock pyproject.toml &&) true
	$(COMPILE) $(addprefix --extra ,serving oidc telemetry training) --no-emit-package ccatune -c requirements/dev.lock \
		-o requirements/server.lock pyproject.toml
	$(COMPILE) --extra demo --extra ray --no-emit-package ccatune -c requirements/dev.lock \
		-o requirements/trainer.lock pyproject.toml
	$(COMPILE) --upgrade --extra signatures -o requirements/agent.lock packaging/agent/pyproject.toml
	$(COMPILE) --upgrade -o requirements/lock-tool.lock requirements/lock-tool.in

$(UV): requirements/lock-tool.lock
	$(PYTHON) -m venv build/lock-tool
	build/lock-tool/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

clean: ## Remove everything that was built or set up
	rm -rf $(VENV) build dist demo emulation/_engine* emulation/mahimahi/delay-shell .hypothesis .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
