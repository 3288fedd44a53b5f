# `make up` runs Waybill on this machine, `make test` checks it. See README.md.
SHELL := /bin/sh
VENV := .venv
PYTHON_IN_VENV := $(VENV)/bin/python

# Compiled modules are kept even where the environment says otherwise: the tests start hundreds of Python processes.
unexport PYTHONDONTWRITEBYTECODE

# Processes of `make test`: more than there are processors, for many tests wait for servers.
TEST_PROCESSES := 4

# More words for pip-audit, such as `-s osv`, which asks another database.
AUDIT :=

# `make drill FAULTS=worker,web` tries only these; docs/operate/drill.md has the list.
FAULTS :=
DRILL_FOLDER := $(or $(TMPDIR),/tmp)/waybill-drill

.PHONY: help up port down status logs test nightly check lint unit map venv venv-test lock audit bench drill rehearsal agent release

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' Makefile

up: port venv ## set everything up and run it until Ctrl-C
	@exec $(VENV)/bin/waybill up

# Before the minutes of the first start; later `waybill up` looks itself.
port:
	@test -e $(VENV)/.lock || PYTHONDONTWRITEBYTECODE=1 $(or $(PYTHON),python3) -m deploy.stack.free_ports "$${WAYBILL_PORT:-8000}"

down: venv ## stop what `make up` started
	@$(VENV)/bin/waybill down

status: venv ## what is running
	@$(VENV)/bin/waybill status || true

logs: venv ## follow the logs
	@exec $(VENV)/bin/waybill logs

# Programs that the tests need.
.PHONY: test-tools
test-tools: venv-test
	@deploy/endpoint/install-toolkit.sh --if-allowed
	@tests/clients/install.sh .clients
	@tests/install-browser.sh
	@tests/install-nginx.sh
	@tests/install-tools.sh
	@tests/install-ftp-servers.sh .ftp-servers
	@tests/install-s3-server.sh .s3-server
	@tests/install-pgbouncer.sh .pgbouncer

# The processes of a run collect at the same time: each of them would compile all tests. A failure shows up again in the run.
.PHONY: compiled-tests
compiled-tests: venv-test
	@$(VENV)/bin/pytest -q --collect-only </dev/null >/dev/null 2>&1 || true

test: test-tools ## install what the tests need, then lint and run all but the nightly ones
	@$(MAKE) --no-print-directory --output-sync=target -j 2 lint compiled-tests
	@$(PYTHON_IN_VENV) -m tests.second_try -n $(TEST_PROCESSES) -m "not nightly" </dev/null

nightly: test-tools ## the tests of upgrades, of releases and of benchmarks: before a release, too
	@$(VENV)/bin/pytest -n 2 -m nightly </dev/null

check: venv-test ## lint and the unit tests, in about a minute
	@$(MAKE) --no-print-directory --output-sync=target -j 2 lint unit

unit: venv-test
	@$(VENV)/bin/pytest -q -n 2 tests/unit </dev/null

lint: venv-test ## ruff, mypy, and the patterns that make prose hard to read
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check --quiet .
	@$(PYTHON_IN_VENV) .ci/prose.py
	@$(VENV)/bin/mypy .

map: venv-test ## write the pictures and tables of docs/architecture.md and the manual in docs/shell.md anew from the code
	@$(PYTHON_IN_VENV) -m docs.draw

agent: venv ## write waybill-connect.pyz, the agent in one file, and its SHA-256
	@$(PYTHON_IN_VENV) -m deploy.release.agent waybill-connect.pyz

release: nightly ## run the nightly tests, and build the archives, the image and the SBOM of the newest commit into dist/, with their hashes
	@$(PYTHON_IN_VENV) -m deploy.release $(RELEASE)

venv: ## the virtual environment of `make up`
	@deploy/venv.sh $(VENV) requirements.lock

venv-test:
	@deploy/venv.sh $(VENV) requirements-test.lock

lock: venv-test ## write the lock files anew from pyproject.toml
	@$(VENV)/bin/uv pip compile -q --upgrade --generate-hashes --no-header --universal --python-version 3.11 \
		--no-emit-index-url --no-emit-find-links --extra build --extra embedded pyproject.toml -o requirements.lock
	@$(VENV)/bin/uv pip compile -q --upgrade --generate-hashes --no-header --universal --python-version 3.11 \
		--no-emit-index-url --no-emit-find-links --extra build --extra embedded --extra test -c requirements.lock pyproject.toml \
		-o requirements-test.lock
	@$(PYTHON_IN_VENV) -m deploy.release.wheels --strict requirements.lock requirements-test.lock

audit: venv-test ## ask for holes known in what is pinned (pip-audit), and for wheels that are missing
	@if [ -r /etc/ssl/certs/ca-certificates.crt ]; then \
		export SSL_CERT_FILE="$${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"; \
		export REQUESTS_CA_BUNDLE="$${REQUESTS_CA_BUNDLE:-$$SSL_CERT_FILE}"; fi; \
	$(VENV)/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off $(AUDIT) \
		-r requirements.lock -r requirements-test.lock && \
	exec $(PYTHON_IN_VENV) -m deploy.release.wheels --strict requirements.lock requirements-test.lock

drill: venv-test ## faults in docker-compose.yml, in a Docker Engine of its own, as root: a table of what each costs
	@$(PYTHON_IN_VENV) -m bench.drill --faults "$(FAULTS)" --base "$(DRILL_FOLDER)" --write "$(DRILL_FOLDER)/table.md"

rehearsal: venv-test ## the commands of the README and of docs/operate in bare systems, as root: a table of each step
	@$(PYTHON_IN_VENV) -m bench.install.first_command $(FIRST_COMMAND)
	@$(PYTHON_IN_VENV) -m bench.install $(REHEARSAL)

bench: venv-test ## how to run the benchmarks
	@for file in $$(grep -l 'if __name__ == "__main__"' bench/*.py bench/*/*.py); do \
		name=$$(echo "$$file" | sed 's:/__main__::; s:\.py$$::; s:/:.:g'); \
		echo "$(PYTHON_IN_VENV) -m $$name"; \
		sed -n '1s/^"""\([^"]*\).*/    \1/p' "$$file"; \
	done
