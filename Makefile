# iosched: `make run` shows the main job, `make test` runs every test. Both set up what is missing.

CARGO ?= cargo
BIN   := target/release/iosched
PREFIX ?= /usr/local
# Where the scripts look, whatever Cargo's settings say.
export CARGO_TARGET_DIR := $(CURDIR)/target
SUDO  := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: fuzz example-pgbench example-sweep example-documents example-database write-up-1 write-up-2 write-up-3 write-up-4 two-schedulers run test test-full test-ansible bench install setup setup-test build clean deb static test-vm

run: setup build ## how fast a program starts beside readers, on an emulated disk; leaves only the record, in iosched-results/
	$(SUDO) $(BIN) tune --load desktop:readers=10,starts=4,seconds=6 --arms none,mq-deadline,bfq

build:
	$(CARGO) build --release --locked --package iosched-cli

setup: ## packages that the command needs at run time
	scripts/setup run

setup-test: ## packages that the tests need besides
	scripts/setup test

test: setup-test ## every test, formatting, lints
	scripts/test

test-full: setup-test build test-vm ## what takes longer than CI may: faults at full size, calibration, reboots
	scripts/test --full

MINUTES ?= 10

fuzz: ## every reader of what others wrote, guided by coverage: MINUTES each
	scripts/fuzz --minutes $(MINUTES)

bench: setup-test build ## whole commands and inner loops, as ratios to a peer in the same run
	scripts/bench

EXAMPLE := $(SUDO) $(BIN) tune --emulate

example-pgbench: setup-test build ## PostgreSQL under three schedulers, on an emulated hard disk
	$(EXAMPLE) hdd-7200-fifo --size 4G --load pgbench:scale=10,clients=20,time=10 --arms none,mq-deadline,bfq --budget 10m

example-sweep: setup build ## the sweep of five tests, with its log and its points
	$(EXAMPLE) hdd-7200-fifo --size 2G --load five-tests:size=16m,record=1m,threads=1..2 --arms none,mq-deadline,bfq --fixed-rounds 2

example-documents: setup build ## the document server, with its control
	$(EXAMPLE) hdd-7200-fifo --size 2G --load documents-read:threads=16,documents=60,stored=6000 --arms none,mq-deadline,bfq --fixed-rounds 5

example-database: setup build ## the database server's four loads, as ratios to the baseline
	$(EXAMPLE) hdd-7200-fifo --size 4G --load database --file-size 64M --runtime 5s --budget 10m

write-up-1 write-up-2 write-up-3 write-up-4: setup-test build ## a report of results/write-ups.md again, under cfq, deadline and noop; ends with its tables
	$(SUDO) env IOSCHED=$(BIN) lab/write-up $(@:write-up-%=%) $(if $(FULL),--full)

two-schedulers: setup-test build ## a guest's scheduler above a host's, on an emulated disk; ends with its table
	$(SUDO) env IOSCHED=$(BIN) lab/two-schedulers

install: build ## one static-ish binary into $(PREFIX)/bin
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/iosched

PROFILE ?= release

static: ## target/static/*.tar.gz: one binary without libraries, for x86_64 and aarch64, and checksums
	scripts/setup static
	scripts/package static $(PROFILE)
	$(SUDO) tests/static target/static/iosched-*-linux-$$(uname -m)/iosched

deb: setup ## target/package/iosched_*.deb, with manual pages and completions
	$(CARGO) build --locked --profile $(PROFILE) --package iosched-cli
	scripts/package deb $(PROFILE)

test-ansible: build ## roll out over machines of namespaces with the Ansible collection; ansible-lint, ansible-test sanity
	scripts/setup fleet
	$(SUDO) tests/fleet/run.py

CUTS ?= 20
SERVED ?= 20

test-vm: deb ## install the package in a machine of QEMU, keep schedulers, reboot it, cut its power
	scripts/setup vm
	$(SUDO) env IOSCHED_TEST_CUTS=$(CUTS) IOSCHED_TEST_SERVED=$(SERVED) tests/vm/all

clean:
	$(CARGO) clean
