# tiercast: `make demo` shows it, `make test` checks it; both set up and build what is missing.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON := .venv/bin/python
# Whatever the environment says, bytecode is kept: hundreds of runs would compile the lab again.
unexport PYTHONDONTWRITEBYTECODE
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 1800
# Inputs of each target. -1: as many as there is time for.
FUZZ_RUNS ?= -1
# YAML mutants. Each is bounded in CPU time, which a test must not depend on.
FUZZ_MUTANTS ?= 100000
FUZZ_SEED ?= 1
FUZZ_CPU_SECONDS ?= 2
LOADS ?= 3
SOAK_MINUTES ?= 60
# Another compiler may have other warnings.
WERROR := $(if $(filter default,$(origin CXX)),ON,OFF)
# The programs that a run needs. The tests' binaries are the larger part of a whole build.
PROGRAMS := tiercast-switch tiercast-send tiercast-recv tiercast-tester tiercast-host tiercast-delay-line tiercast-ns3 tiercast-marking \
  $(if $(wildcard /usr/include/normApi.h),tiercast-norm)
# With the same warnings as the other build, ccache has most objects.
ALONE := -DTIERCAST_WERROR=$(WERROR) -DTIERCAST_WITH_GRPC=OFF -DTIERCAST_WITH_DPDK=OFF -DTIERCAST_WITH_NS3=OFF -DBUILD_TESTING=OFF \
  $(foreach package,fmt CLI11 Protobuf GTest,-DCMAKE_DISABLE_FIND_PACKAGE_$(package)=ON) --no-warn-unused-cli

.PHONY: help setup setup-alone setup-dev build stubs types configure configure-dev ahead programs demo test test-quick test-busy coverage test-alone test-cpp test-python test-side-by-side test-real bench-switch \
  bench-sender bench-recv bench-control bench-links bench-ns3 bench-protocols charts attack soak fuzz lint tidy deb p4 lock clean

help:             ## this list
	@grep -hE '^[a-z0-9-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## */\t/' | expand -t 16

setup:            ## install what a run needs: Debian packages, and the Python environment .venv (idempotent)
	@scripts/setup.sh

setup-dev:        ## the same, and what the tests and checks need
	@scripts/setup.sh dev

setup-alone:      ## install what test-alone needs: a compiler, CMake, Ninja and RapidJSON
	@scripts/setup.sh alone

stubs: setup
	@if [ ! -e build/python/.stamp ] || [ -n "$$(find proto requirements.lock -newer build/python/.stamp)" ]; then \
	  echo "build: generating the Python stubs"; \
	  rm -rf build/python && $(PYTHON) proto/generate_python.py build/python && touch build/python/.stamp; fi

types: stubs setup-dev
	@[ -e build/python/tiercast/v1/lab_pb2.pyi ] || $(PYTHON) proto/generate_python.py --types build/python

CONFIGURE := [ -e build/build.ninja ] || cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
  -DTIERCAST_WERROR=$(WERROR)

configure: stubs
	@$(CONFIGURE)
ifneq ($(origin SCHEMES),undefined)
	@if [ -d "$(SCHEMES)" ]; then set -- "$(SCHEMES)"; else set -- $(SCHEMES); fi; schemes=; \
	for folder; do schemes+="$${schemes:+;}$$(realpath -ms -- "$$folder")"; done; \
	cmake -DTIERCAST_SCHEMES="$$schemes" build > /dev/null
endif

# Configures the tests as well.
configure-dev: setup-dev configure
	@grep -q BUILD_TESTING:BOOL=ON build/CMakeCache.txt || cmake -DBUILD_TESTING=ON build > /dev/null

# The first time, libraries that need nothing of .venv are compiled while pip fills it.
programs:         ## build what a run needs into build/
	@scripts/setup.sh packages
	@[ -e build/build.ninja ] || $(MAKE) --no-print-directory -j 2 stubs ahead
	@$(MAKE) --no-print-directory configure
	@ninja -C build -j $(JOBS) $(PROGRAMS)

ahead:
	@$(CONFIGURE)
	@echo "programs: first the libraries that need no Python environment"
	@ninja -C build -j $(JOBS) tiercast_engine tiercast_protocols tiercast_messages
	@[ -e .venv/requirements.lock.sha256 ] || echo "programs: waiting for the Python environment"

build: configure-dev  ## build every binary into build/, including the tests
	@ninja -C build -j $(JOBS)

# In Mininet with tiercast-switch; the other programs are built when they are needed.
demo:             ## run SIM's session (section 4.2.1 of its paper) in Mininet: a table and a report
	@scripts/require-root.sh demo
	@$(MAKE) --no-print-directory programs PROGRAMS="tiercast-switch tiercast-send tiercast-host"
	@./tiercast run experiments/sim-session.yaml

ifdef SANITIZE
test:             ## every test: C++ (ctest), fuzzers, lint, Python (pytest); needs root. SANITIZE=address, =thread
	@scripts/require-root.sh test
	@$(MAKE) --no-print-directory setup-dev stubs
	@scripts/test_sanitized.sh "$(SANITIZE)"
else
test:
	@scripts/require-root.sh test
	@$(MAKE) --no-print-directory build types
	@scripts/test.sh
endif

test-busy:        ## the same beside LOADS=3 busy loops: no test depends on the clock
	@for i in $$(seq $(LOADS)); do (while :; do :; done) & done; \
	trap 'kill $$(jobs -p)' EXIT; $(MAKE) --no-print-directory test

test-alone: setup-alone  ## the engine and the protocols compile without gRPC, DPDK, ns-3 and Python
	@cmake -S . -B build-alone -G Ninja -DCMAKE_BUILD_TYPE=Release $(ALONE) > /dev/null
	@ninja -C build-alone -j $(JOBS) --quiet tiercast_engine tiercast_protocols

coverage: setup-dev stubs ## lines of protocols, engine and controller that tests cover: build-coverage/report
	@scripts/coverage.sh

test-cpp: build   ## only the C++ tests
	@ctest --test-dir build --output-on-failure -j $(JOBS)

test-python: build  ## only the Python tests: side by side, then those that judge real runs (root)
	@$(MAKE) --no-print-directory -k test-side-by-side test-real

# Many tests wait for programs, so three times as many as there are cores run at a time.
SIDE_BY_SIDE = $$((3 * $(JOBS)))
test-side-by-side: build
	@$(PYTHON) -m pytest -m "not alone" -n $(SIDE_BY_SIDE) --dist worksteal

# One for each core, since they mostly wait. Where a run says that the machine could not keep up, its test
# runs again by itself (5: there is none).
test-real: build
	@status=0; alone=$$(grep -rl --include='*.py' 'mark\.alone' tests); \
	$(PYTHON) -m pytest -m alone -n $(JOBS) --dist worksteal $$alone || status=1; \
	$(PYTHON) -m pytest -m alone --crowded $$alone || [ $$? -eq 5 ] || status=1; \
	exit $$status

# The tests left out run programs for a long time, or whole sessions in the testkit.
test-quick: build  ## the tests that take two minutes: no real runs, sessions or reproductions (root)
	@ctest --test-dir build --output-on-failure --quiet -j $(SIDE_BY_SIDE) -E 'Session\.|Tracking\.|Figure|^Seeds/'
	@$(PYTHON) -m pytest -m "not alone and not mininet and not slow" -n $(SIDE_BY_SIDE) --dist worksteal

bench-switch:     ## speed and exactness of the switch, beside bmv2's: results/bench/switch.json (minutes, root)
	@scripts/require-root.sh bench-switch
	@$(MAKE) --no-print-directory build
	@ninja -C build -j $(JOBS) bench-switch-programs
	@$(PYTHON) scripts/bench_switch.py

bench-sender:     ## tiercast-send beside this machine's own limits: results/bench/sender.json (10 minutes, root)
	@scripts/require-root.sh bench-sender
	@$(MAKE) --no-print-directory configure-dev
	@ninja -C build -j $(JOBS) tiercast-send tiercast-bare-loop tiercast-far-end
	@$(PYTHON) scripts/bench_sender.py

bench-recv:       ## tiercast-recv beside a bare receive loop and testpmd: results/bench/recv.json (a minute, root)
	@scripts/require-root.sh bench-recv
	@$(MAKE) --no-print-directory configure-dev
	@ninja -C build -j $(JOBS) tiercast-recv-bench
	@$(PYTHON) scripts/bench_recv.py

charts: setup     ## renew the charts in docs/images from the results of bench-sender
	@$(PYTHON) scripts/sender_charts.py

bench-control: ## joins over four switches, one by one and 2,000 a second; P4Runtime inserts: results/bench/control.json (a minute, root)
	@scripts/require-root.sh bench-control
	@$(MAKE) --no-print-directory configure-dev
	@ninja -C build -j $(JOBS) tiercast-switch tiercast-p4runtime-load
	@$(PYTHON) scripts/bench_control.py

bench-links:      ## a chain of three switches over veth and in memory: results/bench/links.json (a minute, root)
	@scripts/require-root.sh bench-links
	@$(MAKE) --no-print-directory configure-dev
	@ninja -C build -j $(JOBS) tiercast-switch tiercast-switch-dpdk tiercast-veth-load
	@$(PYTHON) scripts/bench_links.py

bench-ns3: configure-dev ## the runtime in virtual time beside plain ns-3: results/bench/ns3.json (minutes)
	@ninja -C build -j $(JOBS) tiercast-ns3 tiercast-plain-ns3 tiercast-host
	@PYTHONPATH=controller:mininet:build/python $(PYTHON) scripts/bench_ns3.py

bench-protocols: configure-dev  ## cost of each scheme's cores: results/bench/protocols.json (some minutes)
	@ninja -C build -j $(JOBS) tiercast-protocols-bench tiercast-host
	@$(PYTHON) scripts/bench_protocols.py

attack: configure-dev  ## forged packets and floods against a network of its own, and a table of what came of it (a minute; root for more)
	@ninja -C build -j $(JOBS) --quiet tiercast-switch tiercast-send tiercast-host p4src_test protocols_schemes_test
	@$(PYTHON) scripts/attack.py

soak:             ## all schemes with churn, TCP and failing links for SOAK_MINUTES=60: memory, descriptors, lost packets (root)
	@scripts/require-root.sh soak
	@$(MAKE) --no-print-directory programs
	@$(PYTHON) scripts/soak.py --minutes $(SOAK_MINUTES)

fuzz: configure-dev  ## fuzz the engine (FUZZ_SECONDS=1800 for each target) and the lab's YAML (FUZZ_MUTANTS=100000)
	@[ -e build/fuzz/build.ninja ] || \
	  cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ > /dev/null
	@ninja -C build/fuzz -j $(JOBS) --quiet
	@ninja -C build -j $(JOBS) --quiet tiercast-host
	@status=0; \
	tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS) $(FUZZ_RUNS) || status=1; \
	$(PYTHON) tests/fuzz/yaml_fuzz.py --mutants $(FUZZ_MUTANTS) --seed $(FUZZ_SEED) --jobs $(JOBS) \
	  --cpu-seconds $(FUZZ_CPU_SECONDS) --keep build/fuzz/crashes || status=1; \
	exit $$status

lint: types configure  ## ruff, mypy in strict mode, clang-format, clang-tidy --quick and shellcheck (three minutes)
	@scripts/lint.sh

tidy: setup-dev build  ## clang-tidy over every C++ source but tests (make lint: those without gRPC, DPDK, ns-3)
	@scripts/tidy.sh

deb: configure    ## Debian packages tiercast and tiercast-ns3, for a machine without a compiler, into build-deb/ (minutes)
	@packaging/site_packages.sh build-deb/site-packages
	@cmake -S . -B build-deb -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
	  -DBUILD_TESTING=OFF -DTIERCAST_SITE_PACKAGES=$(CURDIR)/build-deb/site-packages > /dev/null
	@ninja -C build-deb -j $(JOBS) package

p4: setup         ## compile p4src (needs p4c) and renew p4src/compiled with its LOCK
	@$(PYTHON) p4src/compile.py
	@$(PYTHON) p4src/compile_examples.py
	@$(PYTHON) tests/docs/marking_program.py

lock:             ## renew requirements.lock and requirements-dev.lock from their .in files
	@scripts/lock.sh

clean:            ## remove build/, build-alone/ and build-deb/ (results/ and .venv stay)
	@rm -rf build build-alone build-deb
