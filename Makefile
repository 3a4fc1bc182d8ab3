# make train ARGS="algo=ancora seed=1"   the main job, with overrides
# make test                              the tests
# Both set up .venv from the pinned lock file the first time.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
LOCK   := requirements/cpu.lock.txt
STAMP  := .venv/.ready-$(shell cat $(LOCK) scripts/setup_env.py | sha256sum | cut -c1-16)
RUN    := .venv/bin/python
ARGS   ?=

.PHONY: train test test-slow lint setup clean help

train: $(STAMP)
	@$(RUN) -m selfplay.train $(ARGS)

test: $(STAMP)
	@$(RUN) -m pytest -m "not slow" $(ARGS)

test-slow: $(STAMP)
	@$(RUN) -m pytest -m slow $(ARGS)

lint: $(STAMP)
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy selfplay

setup: $(STAMP)

$(STAMP):
	@test -n "$(PYTHON)" || { echo "Python 3.11 is needed and there is no python3.11 or python3 here" >&2; exit 1; }
	@$(PYTHON) scripts/setup_env.py $(LOCK) $@

clean:
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@sed -n '1,/^$$/s/^# //p' Makefile
