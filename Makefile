# The verbs of the project. `make help` lists them.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
REPEAT ?= 20
DEMO_ARGS ?=
# What `make fresh` runs, each in quotes.
FRESH ?= 'make run' 'make test'

.DEFAULT_GOAL := help
.PHONY: help setup run build test optional torch2 fresh format lint asan tsan soak docs bench compare install clean

help:            ## this list
	@sed -nE 's/^([a-z0-9 ]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup:           ## install the Debian packages that are missing
	@scripts/setup.sh

run: setup       ## build the library and the demo, and train on Fashion-MNIST
	@cmake --preset release -DCOHORT_TESTS=OFF --log-level=WARNING
	@cmake --build --preset release --target fashion_mnist -j $(JOBS)
	@build/release/examples/fashion_mnist $(DEMO_ARGS)

build: setup     ## build everything, warnings as errors; write compile_commands.json for clangd
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)
	@tools/compile_commands.py . build/dev

# Property tests draw the same cases in every run of `test`, and new ones in every run of `soak`.
test: build      ## build everything, run all tests, and list what was left out
	@RC_PARAMS=seed=20261116 ctest --preset dev -j $(JOBS); code=$$?; tools/left_out.py build/dev; exit $$code

# Debian does not have TensorBoard. Where PyPI can not be reached, its test is left out.
optional:        ## install the packages of the optional parts too, and test these parts
	@scripts/setup.sh --optional --docs
	@build/python/bin/python3 -c 'import tensorboard' 2>/dev/null || \
	  { python3 -m venv --system-site-packages build/python && build/python/bin/pip install --quiet tensorboard; } || \
	  echo "make: TensorBoard could not be installed from PyPI"
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)
	@ctest --preset dev -j $(JOBS) -L optional; code=$$?; tools/left_out.py build/dev; exit $$code

# LibTorch 2 is on PyPI only. Where that can not be reached, these tests are left out.
torch2:          ## build against LibTorch 2 too, and run the tests of what touches LibTorch (cmake --preset torch2: all)
	@scripts/setup.sh --torch2; code=$$?; \
	if [ $$code -eq 3 ]; then echo "make: the tests with LibTorch 2 are left out; the reason stands above"; exit 0; fi; \
	[ $$code -eq 0 ] && set -x && cmake --preset torch2 && \
	  cmake --build --preset torch2 --target libtorch_tests -j $(JOBS) && ctest --preset torch2 -j $(JOBS) -L libtorch

fresh:           ## run FRESH ('make run' 'make test') on a clean Debian 12 of its own, as an ordinary user (needs root)
	@scripts/fresh.sh $(FRESH)

format:          ## bring every source file into the project's form
	tools/check_format.py --fix .

# clang-tidy reads headers that protoc makes.
lint:            ## check the form; run clang-tidy on what differs from main (ALL=1: on the whole library)
	@scripts/setup.sh --lint
	@tools/check_format.py .
	@cmake --preset dev --log-level=WARNING >/dev/null
	@cmake --build --preset dev --target $(patsubst %.proto,%.pb.h,$(wildcard proto/cohort/*.proto)) >/dev/null
	@tools/lint.py $(if $(ALL),--all) --jobs $(JOBS) . build/dev

asan tsan: setup ## run the unit and conformance tests under a sanitizer
	cmake --preset $@
	cmake --build --preset $@ -j $(JOBS)
	ctest --preset $@ -j $(JOBS)

soak: build      ## run the unit and conformance tests REPEAT times, until one fails; kill processes as often; fuzz; random programs
	cmake --preset dev -DCOHORT_TIME_LIMIT_FACTOR=$$((2 * $(REPEAT) + 20)) --log-level=WARNING
	ctest --preset dev -j $(JOBS) -L '^(unit|conformance)$$' -E '^differential_test$$' --repeat until-fail:$(REPEAT)
	COHORT_FUZZ_COPIES=$$((1000 * $(REPEAT))) COHORT_FUZZ_SEED=$$(date +%s) ctest --preset dev -j $(JOBS) -R '^fuzz\.' --timeout 3600
	COHORT_KILLS=$$((50 * $(REPEAT))) ctest --preset dev -R '^(checkpoint_kill|collectives_process|faults)_test$$'
	COHORT_KILLS=$$((50 * $(REPEAT))) COHORT_LAUNCHES=$$((50 * $(REPEAT))) COHORT_STALL_COUNT=$$((50 * $(REPEAT))) ctest --preset dev -R '^launch_test$$'
	COHORT_PROGRAMS=$$((2000 * $(REPEAT))) COHORT_PROGRAM_SEED=$$(date +%s) ctest --preset dev -R '^differential_test$$'
	COHORT_CALLS=10000 ctest --preset dev -R '^steady_(torch_)?calls_test$$'
	COHORT_KILLS=50 COHORT_CALLS=100000 ctest --preset dev -R '^coordinator_faults_test$$'

docs:            ## write the site of the documents and the public headers to build/docs/html
	@scripts/setup.sh --docs
	@rm -rf build/docs && mkdir -p build/docs
	@doxygen docs/Doxyfile
	@echo "make: the site begins at build/docs/html/index.html"

bench: setup     ## build and run the benchmarks
	cmake --preset release -DCOHORT_BENCHMARKS=ON
	cmake --build --preset release --target bench -j $(JOBS)

compare: setup   ## run Cohort beside every peer that is installed
	cmake --preset release -DCOHORT_BENCHMARKS=ON
	cmake --build --preset release --target compare -j $(JOBS)

install: setup   ## build the library and install it under PREFIX
	cmake --preset release -DCOHORT_TESTS=OFF -DCOHORT_EXAMPLES=OFF -DCOHORT_BENCHMARKS=OFF
	cmake --build --preset release -j $(JOBS)
	cmake --install build/release --prefix $(PREFIX)

clean:           ## remove everything that was built
	rm -rf build
