# The course's commands; `make` alone lists them. Each makes `.venv` first if it must.

.DEFAULT_GOAL := help
BIN := .venv/bin
ARGS ?=
WORKERS ?= 2
LESSON ?= workbook/00_start_here.ipynb
ROOT_FLAG := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help setup lab test check format data notebooks figures bench soak mutants \
  gpu-check clean

help: ## List the commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1@/p' Makefile | tr '@' '\t' | expand -t 18
	@echo
	@echo '  PYTHON=python3.12   which Python makes .venv (3.11 or newer)'
	@echo '  TORCH=cpu|cuda      which torch; any requirement of pip will do too'
	@echo '  LESSON=FILE         what make lab opens: workbook/03_....ipynb'
	@echo '  ARGS="..."          more arguments for the command'

setup: ## Make or renew .venv (the other commands do it by themselves)
	@if [ -n "$$PYTHON" ]; then set -- "$$PYTHON"; \
	else set -- python3 python3.14 python3.13 python3.12 python3.11; fi; \
	for python in "$$@"; do \
	  if [ "$$("$$python" -c 'import sys; print(sys.version_info >= (3, 11))' \
	           2>/dev/null)" = True ]; then \
	    "$$python" tools/setup.py; exit; \
	  fi; \
	done; \
	python=$$1; \
	found=$$("$$python" --version 2>/dev/null) || found='not on this machine'; \
	echo "The course needs Python 3.11 or newer, and $$python is $$found." \
	     "Install one (python.org, or your system's packages), then" \
	     "name it: make lab PYTHON=python3.12" >&2; \
	exit 1

lab: setup ## Open the first lesson, your own copy, in JupyterLab
	@$(BIN)/python tools/workbook.py
	@test -e '$(LESSON)' || { echo "There is no $(LESSON). There are:" \
	  workbook/*.ipynb >&2; exit 1; }
	@echo 'JupyterLab opens $(LESSON) in your browser in a few'
	@echo 'seconds. If it does not, copy the address that appears here. Ctrl-C stops it.'
	@$(BIN)/python -m jupyterlab $(ROOT_FLAG) --log-level=WARN \
	  --LabApp.default_url=/lab/tree/$(LESSON) $(ARGS)

test: check ## Run everything: style, types, tests, notebooks, browser
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope \
	  --nbval --nbval-sanitize-with tests/nbval.cfg tests notebooks $(ARGS)

check: setup ## Style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## Bring the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

data: setup ## Download four real traces (the lessons run without them)
	@$(BIN)/python -m blockmgr data $(ARGS)

notebooks: setup ## Make the students' notebooks from notebooks/solutions, and run both
	@$(BIN)/python tools/notebooks.py $(ARGS)

figures: setup ## Draw the README's pictures anew
	@$(BIN)/python -m figures.readme

bench: setup ## Time the manager's basic operations
	@$(BIN)/python -m blockmgr bench --flat $(ARGS)

soak: setup ## 1,000,000 random operations, every byte looked after
	@nice -n 5 $(BIN)/python tools/soak.py $(ARGS)

mutants: setup ## Change the core line by line: does a test notice?
	@nice -n 5 $(BIN)/python tools/mutants.py $(ARGS)

gpu-check: setup ## What only a GPU can show (skips without one)
	@$(BIN)/python tools/gpu_check.py $(ARGS)

clean: ## Remove .venv and every cache
	rm -rf .venv .venv.lock build dist *.egg-info screenshots .hypothesis \
	  .mypy_cache .pytest_cache .ruff_cache
	find . -path ./.git -prune -o \
	  \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
