# make app              the app on the shipped checkpoints
# make gallery          worked sentences as a folder of pages, site/, served here; SERVE= writes it only
# make check            style and types
# make test             all tests, a real browser included; prints the processor time they took
# make test-under-load  the same beside two endless loops
# make soak             kills at random moments, many sessions, races, the Dockerfile; LONG=1: all of it
# make race             Headlight beside other libraries: translating, training, all maps on screen
# make gpu              checks and figures on a CUDA device, in ten minutes (benchmarks/gpu.py)
# make pictures         the picture in the README, taken of today's app
# make lines            lines by folder, and the limits the project keeps
# make components      the bundles of the browser's scripts and styles; needs npm
# make lock             versions, and for servers their hashes, from the ranges in pyproject.toml
# make sbom, audit      what a server has installed, and what is known against it
# Each makes .venv first if it is missing or older than the lock files.

# The first of these that is Python 3.11 or later; or say make PYTHON=/path/to/python.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$p && break; done)
# Where to take torch from, when not from pip's usual place (see docs/training.md).
TORCH_INDEX ?=
PORT ?= 8501

# Some environments keep Python from caching what it compiles; every process would compile it all.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# Python compiles what it imports; compiling everything beforehand takes longer than the rest. For tests
# it is done all the same, and pytest compiles the tests, or each process of their first run does it again.
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile
UV_COMPILE = uv pip compile --universal --python-version 3.11 --no-header --no-annotate -q

# Where `make components` writes.
OUT := ui/components/bundles
COMPONENTS = $(foreach at,$(filter-out %/shared/ %/bundles/,$(dir $(wildcard ui/components/*/*.js))),$(at)$(notdir $(at:/=)))
.PHONY: app gallery components check style types test test-under-load suite soak race gpu architecture lines pictures lock sbom audit clean

# Tests run in another order each time; make test SEED=5 repeats an order.
SEED ?= $(shell date +%s)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4

app: $(VENV)/.app
	$(BIN)/streamlit run app.py --server.port $(PORT)

SERVE ?= 1
gallery: $(VENV)/.app
	OMP_NUM_THREADS=1 $(BIN)/python -m headlight gallery --out site
ifneq ($(SERVE),)
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site $(PORT)
endif

components:
	npx --yes esbuild@0.25.12 $(foreach at,$(sort $(COMPONENTS)),$(at).js $(at).css) --bundle --minify \
	--format=iife --global-name=view --outdir=$(OUT) --entry-names=[name] --log-level=warning

check: style types

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/hadolint Dockerfile

types: $(VENV)/.dev
	$(BIN)/mypy

test: $(VENV)/.dev
	$(BIN)/python tests/browser/chromium.py
	@bash -c 'TIMEFORMAT="Processor time: %U s user + %S s system; aim: at most 600 s"; \
	time $(MAKE) --no-print-directory suite'

test-under-load: $(VENV)/.dev
	@yes > /dev/null & first=$$!; yes > /dev/null & second=$$!; \
	trap 'kill $$first $$second' EXIT; trap 'exit 130' INT TERM; $(MAKE) test

suite: $(VENV)/.dev
	$(PYTEST) --no-loadscope-reorder --order-seed $(SEED)

# What takes long or is left to chance; files named soak_*.py, then every test with many examples.
# LONG=1 takes 100 trials of each fault, half an hour of load, 10,000 broken inputs of each kind, and
# other ones with SOAK_SEED=5. Figures are added to soak.jsonl. FUZZ_SECONDS=60 goes on breaking inputs of
# each kind, with one seed after the other, until that took 60 s of processor time.
soak: export HEADLIGHT_SOAK = $(if $(LONG),long)
soak: export HEADLIGHT_SOAK_SEED = $(SOAK_SEED)
soak: export HEADLIGHT_FUZZ_SECONDS = $(FUZZ_SECONDS)
soak: export HEADLIGHT_SOAK_FIGURES = $(if $(LONG),soak.jsonl)
soak: $(VENV)/.dev
	$(BIN)/python tests/browser/chromium.py
	$(PYTEST) --timeout $(if $(LONG),14400,1200) -v -rs -o python_files='soak_*.py'
	$(PYTEST) --timeout 1200 -m hypothesis --hypothesis-profile=soak

# Half an hour; needs npm and a network once. DATA=../shared/data trains on Multi30k, not the phrasebook.
race: $(VENV)/.dev
	$(BIN)/python tests/browser/chromium.py
	$(BIN)/python benchmarks/translate.py
	$(BIN)/python benchmarks/train.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/views.py

# Needs no environment of its own: GPU=... passes arguments on.
gpu:
	PYTHONPATH=. $(PYTHON) benchmarks/gpu.py --out tmp/gpu $(GPU)

$(BIN)/python:
	@test "$$(uname -sm)" != "Darwin x86_64" || { echo "torch has no wheels for Intel Macs (x86_64) since 2.3: say docker build -t headlight . && docker run -p 8501:8501 headlight, or take another computer; on Apple silicon, start a shell and a Python for arm64" >&2; exit 2; }
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed and was not found; say make PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module failed; on Debian it is the package python3-venv" >&2; exit 2; }

$(VENV)/.app: requirements.txt constraints-cuda.txt | $(BIN)/python
# Alone: such an index has old releases of what torch needs.
ifneq ($(TORCH_INDEX),)
	$(PIP) --no-deps "$$(grep ^torch== requirements.txt)" --index-url $(TORCH_INDEX)
endif
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt requirements-race.txt $(VENV)/.app
	$(PIP) -r requirements-dev.txt
	$(PIP) --no-deps -r requirements-race.txt
	@$(BIN)/python -m compileall -q -j 0 -x 'site-packages/.*/tests?/' $(VENV)/lib \
		figures headlight pages transformer ui > /dev/null 2>&1 || true
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --collect-only > /dev/null 2>&1 || true
	@touch $@

# Draws the packages and their imports in docs/architecture.md.
architecture: $(VENV)/.dev
	$(BIN)/python -m tests.architecture --write

# Takes the README's picture of today's app.
pictures: $(VENV)/.dev
	$(BIN)/python -m tests.browser.pictures

# Counts the lines that git tracks, by folder, and prints the limits the project keeps.
lines: $(VENV)/.dev
	@$(BIN)/python -m tests.lines

# Writes the lock files from pyproject.toml; needs uv. Versions stay where its ranges allow them, or
# say make lock UPGRADE=--upgrade. What only CUDA builds of torch need goes to a constraints file,
# which pins a package without installing it. locks/ holds the same versions with hashes, for servers;
# the CPU build of torch is not on the usual index: make lock TORCH_INDEX=ADDRESS asks that one.
CUDA_ONLY := nvidia-|cuda-|triton
lock:
	grep -h == requirements.txt constraints-cuda.txt > .lock.all
	$(UV_COMPILE) $(UPGRADE) pyproject.toml -o .lock.all
	grep -h == .lock.all requirements-dev.txt > .lock.dev
	$(UV_COMPILE) $(UPGRADE) pyproject.toml --extra dev -c .lock.all -o .lock.dev
	{ echo "-c constraints-cuda.txt"; grep -Ev '^($(CUDA_ONLY))' .lock.all; } > requirements.txt
	grep -E '^($(CUDA_ONLY))' .lock.all > constraints-cuda.txt
	{ echo "-r requirements.txt"; grep -Ev '^($(CUDA_ONLY))' .lock.dev | grep -vxFf .lock.all; } > requirements-dev.txt
	$(UV_COMPILE) pyproject.toml --generate-hashes -c .lock.all -o .lock.hashes
	awk '/^[a-z]/ { mine = !/^(torch==|$(CUDA_ONLY))/ } mine' .lock.hashes > locks/common.txt
	{ echo "-r common.txt"; awk '/^[a-z]/ { mine = /^(torch==|$(CUDA_ONLY))/ } mine' .lock.hashes; } > locks/cuda.txt
ifneq ($(TORCH_INDEX),)
	echo "$$(grep ^torch== requirements.txt)+cpu" > .lock.torch
	$(UV_COMPILE) .lock.torch --no-deps --generate-hashes --default-index $(TORCH_INDEX) -o .lock.cpu
	{ echo "-r common.txt"; cat .lock.cpu; } > locks/cpu.txt
endif
	rm -f .lock.all .lock.dev .lock.hashes .lock.torch .lock.cpu
	@grep -q "^$$(grep ^torch== requirements.txt)+cpu " locks/cpu.txt || { \
	echo "locks/cpu.txt has another torch: say make lock TORCH_INDEX=ADDRESS" >&2; exit 2; }

# What a server has installed, as CycloneDX in sbom.json, and what is known against it; the second asks
# the package index. Both tools live in an environment of their own.
sbom: $(VENV)/.app $(VENV)-audit/.made
	$(VENV)-audit/bin/cyclonedx-py environment --output-reproducible -o sbom.json $(BIN)/python

audit: $(VENV)-audit/.made
	$(VENV)-audit/bin/pip-audit --no-deps --disable-pip -r requirements.txt

$(VENV)-audit/.made: | $(BIN)/python
	$(BIN)/python -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install -q --disable-pip-version-check "cyclonedx-bom>=7,<8" "pip-audit>=2.9,<3"
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-audit sbom.json .pytest_cache .mypy_cache .ruff_cache .hypothesis
