# All that is needed is make and Python 3.11 or later, with its venv module. The first target that
# needs the environment creates it in .venv, with uv and every member of the workspace in it.

PYTHON ?= python3
BACKEND ?= cpu
ARGS ?=
WORKERS ?= 2
PLATFORMS ?=
ABIS ?= abi3
CHECKS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

# Editable members see their Python sources change. What is read or compiled when they are installed
# calls for another installation, and compiling members for more: uv would take them from its cache.
PROJECTS := pyproject.toml core/pyproject.toml $(wildcard plugins/*/pyproject.toml)
COMPILED := $(wildcard plugins/*/hatch_build.py plugins/csrc/* plugins/*/extension/*)
REBUILD := $(patsubst plugins/%/hatch_build.py,--reinstall-package plugrad-%, \
    $(wildcard plugins/*/hatch_build.py))

# uv knows nothing of pip's settings. A machine behind a proxy or a mirror needs these.
export UV_SYSTEM_CERTS ?= true
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

.DEFAULT_GOAL := help
.PHONY: help demo test sanitize check docs pages site bench wheels clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

# What tests and tools need has all that the demo needs. Where that is not there, the demo installs a few packages.
DEMO := $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(VENV)/demo-$(BACKEND))
# On a busy machine, threads of NumPy's products wait for each other: 80 seconds instead of 3.
demo: export OPENBLAS_NUM_THREADS = 1
demo: $(DEMO) ## Train on handwritten digits (BACKEND=cpu, wasm or webgpu)
	PLUGRAD_BACKEND=$(BACKEND) $(BIN)/python examples/digits.py $(ARGS)

# The tests start hundreds of processes, which would compile everything again on a machine that is
# told to write no bytecode.
test: export PYTHONDONTWRITEBYTECODE =
test: export PYTHONPYCACHEPREFIX = $(CURDIR)/$(VENV)/bytecode
# The workers take all cores. Threads of NumPy's products would wait for each other: training the digits
# took 15 seconds instead of 0.6 on a busy machine.
test: export OPENBLAS_NUM_THREADS = 1
# Mesa's software driver translates each shader, but leaves the machine code as it comes: to optimize it took half of
# the time of tests of webgpu where no earlier run had. What is about compilers is optimized, in test_second_driver.py.
# GALLIVM_PERF= make test optimizes everything.
test: export GALLIVM_PERF ?= nopt
# Both workers have a core: waking the driver's threads for each dispatch took a tenth of the time of tests of webgpu.
# What depends on threads runs on several in test_second_driver.py. LP_NUM_THREADS= make test has one for each core.
test: export LP_NUM_THREADS ?= 0
test: $(INSTALLED) ## Run the tests in parallel (ARGS="-k relu" for some of them; WORKERS=0 in one process)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# The leaks that it finds are Python's. It must not end tests that ask for too much memory.
sanitize: export ASAN_OPTIONS = detect_leaks=0,allocator_may_return_null=1
sanitize: export PYTHONMALLOC = malloc
sanitize: export OPENBLAS_NUM_THREADS = 1
sanitize: $(INSTALLED) ## Run the tests of kernels with native code that ends the process at undefined behaviour and beyond arrays (CHECKS=undefined for one of them)
	runtime=$$($(BIN)/python plugins/native/hatch_build.py sanitize $(CHECKS)) && \
	PYTHONPATH=$(CURDIR)/plugins/native/build/.sanitized LD_PRELOAD=$$runtime $(BIN)/python -m pytest \
	    -n $(WORKERS) --backend cpu tests/families tests/conformance tests/properties/test_invariances.py \
	    tests/properties/test_borders.py tests/plugins/native/test_pack.py tests/plugins/native/test_odd_buffers.py \
	    tests/plugins/native/test_programs.py tests/plugins/native/test_program_loops.py \
	    tests/plugins/native/test_program_shapes.py tests/plugins/native/test_layouts.py \
	    tests/plugins/native/test_halves.py tests/plugins/native/test_factors.py tests/plugins/native/test_threads.py \
	    tests/plugins/native/test_divided_kernels.py \
	    tests/plugins/native/test_shared_walks.py tests/plugins/native/test_expansion.py \
	    tests/plugins/native/test_small_results.py tests/plugins/native/test_accumulated_products.py \
	    tests/plugins/native/test_recurrent_cells.py $(ARGS)

check: $(INSTALLED) ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/mypy

docs: pages site ## Write what is generated, and build the site in docs/_build/html

pages: $(INSTALLED) ## Write the pages of docs/reference that are generated
	cd tests && ../$(BIN)/python -m consistency.generated

site: $(INSTALLED) ## Build the site; what Sphinx warns of is an error
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html

bench: $(INSTALLED) ## Compare with torch and what else is installed, on one thread
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python benchmarks/run.py $(ARGS)

wheels: | $(BIN)/uv ## Build wheels for this machine, and source distributions, into dist/ (PLATFORMS=all for every platform, ABIS="abi3 cp314t" also for free-threaded Python)
	rm -rf dist
	$(BIN)/uv build --quiet --python $(BIN)/python --all-packages --sdist --wheel --out-dir dist
	for platform in $(PLATFORMS:all=$$($(BIN)/python plugins/native/hatch_build.py platforms)); do for abi in $(ABIS); do \
	    PLUGRAD_NATIVE_PLATFORM=$$platform PLUGRAD_NATIVE_ABI=$$abi $(BIN)/uv build --quiet --python $(BIN)/python \
	        --package plugrad-native --wheel --out-dir dist || exit 1; \
	done; done
	@rm -f dist/.gitignore
	@ls dist
	@echo 'To install what was built: pip install --find-links dist plugrad'

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) uv.lock build plugins/native/build dist docs/_build docs/reference/api outputs \
	    .pytest_cache .ruff_cache
	find core plugins tests examples benchmarks \( -name __pycache__ -o -name '*.wasm' \
	    -o -name '_v?.*.so' -o -name '_neon.*.so' -o -name '_v?.pyd' \) \
	    -prune -exec rm -rf {} + 2>/dev/null || true

$(INSTALLED): $(PROJECTS) $(COMPILED) | $(BIN)/uv
	$(BIN)/uv pip install --python $(BIN)/python --group dev --editable . $(REBUILD)
	@touch $@

# Without plugrad-native, which a compiler of 80 MB would be downloaded for.
$(VENV)/demo-%: $(PROJECTS) $(COMPILED) | $(BIN)/uv
	$(BIN)/uv pip install --python $(BIN)/python --group demo --editable 'core[save]' --editable plugins/cpu \
	    --editable plugins/nn $(if $(filter-out cpu,$*),--editable plugins/$*)
	@touch $@

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "plugrad needs Python 3.11 or later; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Name another one, for example: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
	    exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1,<27' 'uv>=0.13,<1'
