# `make run` starts the database; `make test` proves it. Both set the machine up first.
.DEFAULT_GOAL := help
SHELL := /bin/bash

DATA ?= data
PORT ?= 3306

.PHONY: help run test test-all lint tidy unit clients differential loom simulate sanitize check-aarch64 fuzz crash bench bench-kv bench-commits bench-lone bench-sysbench bench-writes bench-ranges bench-hot-row bench-tpcc bench-tpcc-library bench-large-update bench-memory bench-space bench-connections bench-cold bench-wave bench-recovery bench-compaction bench-amplification bench-queue bench-skew bench-moving bench-fill bench-pressure bench-scan bench-memory-engine bench-memory-peers bench-metadata bench-statement peers setup

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the system packages that building needs
	@scripts/setup build

run: setup ## Build Spillway, start it on ./data (DATA=, PORT=) and show how to connect
	@cargo build --release --quiet -p spillway-cli
	@exec target/release/spillway serve --data $(DATA) --port $(PORT)

# The build of the tests has a server, too. A build of the server alone has fewer features, and
# would compile most crates again.
SERVER_BUILD = cargo build --quiet --bin spillway
test: SERVER_BUILD = cargo test --workspace --tests --no-run --quiet
test: lint unit clients crash ## Check lints and format; run the workspace's tests, real clients and a short crash run

test-all: test ## As test, then every case of every sweep, 50 kills, the models and ten minutes of simulation (hours)
	SPILLWAY_ROUNDS=2 $(MAKE) unit
	$(MAKE) crash KILLS=50
	$(MAKE) loom simulate

lint: setup ## Check formatting, lints, tidiness, documentation links, scripts, and that models and fuzz targets build
	cargo fmt --all --check
	cargo xtask tidy
	! git grep -nE '^(<<<<<<<|>>>>>>>) '
	for script in $$(git grep -lE '^#!.*sh$$' -- scripts tests .ci) scripts/bench-servers; do bash -n "$$script" || exit 1; done
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/rustc-loom cargo check --quiet --tests \
		-p spillway-base -p spillway-memory -p spillway-reclaim -p spillway-storage -p spillway-tiered \
		-p spillway-txn --lib
	RUSTC_WRAPPER=$(CURDIR)/scripts/rustc-fuzzing cargo check --quiet \
		--manifest-path fuzz/Cargo.toml --target-dir target

tidy: ## Check how code and pages are written: layers, lengths, labels, phrases, links (docs/testing.md)
	cargo xtask tidy

unit: setup ## Run the workspace's tests, several test programs at a time
	cargo xtask test

clients: setup ## Run a session from Python, Go, Java, Node and the mariadb tools against a server
	@scripts/setup clients
	$(SERVER_BUILD)
	tests/clients/run target/debug/spillway

differential: setup ## Compare answers to random statements with MariaDB's (SEED=, STATEMENTS=, ENGINE=)
	@scripts/setup clients
	cargo build --quiet --bin spillway
	tests/differential/run target/debug/spillway

crash: setup ## Kill a loaded server repeatedly and check that nothing is lost (KILLS=)
	@scripts/setup clients
	$(SERVER_BUILD)
	tests/crash/run target/debug/spillway $(or $(KILLS),10)

loom: setup ## Model-check the lock-free cores
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --release --quiet \
		-p spillway-base -p spillway-memory -p spillway-reclaim -p spillway-storage -p spillway-tiered \
		-p spillway-txn --lib loom

# Its own profile: optimized, with debug assertions, which the scheduler comes with.
simulate: setup ## Run the whole database under a deterministic scheduler: SECONDS (600) or SEEDS histories, or the one of SEED (FROM=, FIGURES=)
	cargo build --quiet --profile simulate -p spillway-sim --bin simulate
	target/simulate/simulate --jobs=$(or $(JOBS),2) $(if $(SEED),--seed=$(SEED),--from=$(or $(FROM),1) \
		$(if $(SEEDS),--seeds=$(SEEDS),--seconds=$(or $(SECONDS),600))) $(FIGURES)

sanitize: setup ## Run the concurrency tests under the address and the thread sanitizer (nightly)
	CFLAGS=-fno-sanitize-address-use-after-scope \
		RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/asan cargo +nightly test --quiet \
		--target x86_64-unknown-linux-gnu -p spillway-base -p spillway-memory -p spillway-reclaim -p spillway-storage -p spillway-tiered \
		-p spillway-txn --lib
	RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/tsan \
		TSAN_OPTIONS="suppressions=$(CURDIR)/scripts/tsan-suppressions history_size=4" \
		cargo +nightly test --quiet --target x86_64-unknown-linux-gnu \
		-p spillway-base -p spillway-memory -p spillway-reclaim -p spillway-storage -p spillway-tiered \
		-p spillway-txn --lib

check-aarch64: setup ## Check that everything builds for 64-bit ARM (gets its standard library by rustup)
	@scripts/setup aarch64
	rustup target add aarch64-unknown-linux-gnu
	CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc cargo check --quiet --workspace --all-targets \
		--target aarch64-unknown-linux-gnu --target-dir target/aarch64

fuzz: setup ## Fuzz every decoder, and SQL (SECONDS=60 for each, TARGETS=all) (nightly)
	scripts/fuzz "$(or $(SECONDS),60)" $(TARGETS)

bench: bench-kv bench-commits bench-lone bench-wave bench-recovery bench-sysbench bench-hot-row bench-connections ## Run every comparison and print its table (docs/benchmarks.md)

peers: setup
	@scripts/setup peers
	cargo build --release --quiet --manifest-path peers/Cargo.toml

bench-kv: peers ## Compare with RocksDB under db_bench's shapes (KV_ARGS=) (builds RocksDB: minutes)
	peers/target/release/spillway-peers kv $(KV_ARGS)

bench-commits: peers ## Durable commits with 1 to 512 in flight, beside RocksDB (COMMITS_ARGS=)
	peers/target/release/spillway-peers commits $(COMMITS_ARGS)

bench-lone: peers ## One durable writer beside raw writes and RocksDB (LONE_ARGS=)
	peers/target/release/spillway-peers lone $(LONE_ARGS)

bench-wave: peers ## A load step over data larger than memory, beside RocksDB, with a picture (WAVE_ARGS=)
	peers/target/release/spillway-peers wave --plot wave.svg $(WAVE_ARGS)

bench-recovery: peers ## Opening after a kill with 1, 4 and 8 GiB of log, beside RocksDB (RECOVERY_ARGS=)
	peers/target/release/spillway-peers recovery $(RECOVERY_ARGS)

bench-compaction: peers ## One compaction of two runs of keys, with and without data reuse, beside RocksDB (COMPACTION_ARGS=)
	peers/target/release/spillway-peers compaction $(COMPACTION_ARGS)

bench-amplification: peers ## Bytes written and read for each operation of a write-heavy mix, beside RocksDB (AMPLIFICATION_ARGS=)
	peers/target/release/spillway-peers amplification $(AMPLIFICATION_ARGS)

bench-queue: peers ## A table used as a queue, after 1 M and 50 M inserts and deletes, beside RocksDB (QUEUE_ARGS=)
	peers/target/release/spillway-peers queue $(QUEUE_ARGS)

bench-skew: peers ## Point reads of data larger than memory, from uniform to very skewed, beside RocksDB (SKEW_ARGS=)
	peers/target/release/spillway-peers skew $(SKEW_ARGS)

bench-moving: peers ## Reads whose hot rows change suddenly, beside RocksDB, and through servers beside InnoDB (MOVING_ARGS=)
	@scripts/setup sysbench
	cargo build --release --quiet --bin spillway --bin spillway-bench --features spillway-cli/ablation
	peers/target/release/spillway-peers moving $(MOVING_ARGS)
	scripts/bench-moving $(MOVING_ARGS)

bench-fill: peers ## A fill at full speed to 20 GiB with 1 GiB of memory, beside RocksDB (FILL_ARGS=)
	peers/target/release/spillway-peers fill $(FILL_ARGS)

bench-pressure: peers ## Gets and durable puts beside compactions and without, beside RocksDB (PRESSURE_ARGS=)
	peers/target/release/spillway-peers pressure $(PRESSURE_ARGS)

bench-scan: peers ## Scans forward and backward, and gets of many keys at once, beside RocksDB (SCAN_ARGS=)
	peers/target/release/spillway-peers scan $(SCAN_ARGS)

bench-memory-engine: setup ## The figures that the memory engine must reach (SECTIONS=, MEMORY_ENGINE_ARGS=)
	cargo build --release --quiet --bin spillway-bench
	for section in $(or $(SECTIONS),updates recovery checkpoint bytes eviction space); do \
		target/release/spillway-bench memory $$section $(MEMORY_ENGINE_ARGS) || exit 1; done

bench-memory-peers: peers ## Gets and updates of rows in memory beside RocksDB, LMDB and redb (MEMORY_PEERS_ARGS=)
	peers/target/release/memory-peers $(MEMORY_PEERS_ARGS)

bench-metadata: setup ## The metadata of 1 TB: opening, changing, writing it (METADATA_ARGS=)
	cargo build --release --quiet --bin spillway-bench
	target/release/spillway-bench metadata $(METADATA_ARGS)

bench-statement: setup ## A statement from packet to packet: time, allocations, instructions (STATEMENT_ARGS=)
	@scripts/setup statement
	cargo bench --quiet -p spillway-server --bench statement
	scripts/bench-statement $(STATEMENT_ARGS)

bench-sysbench: setup ## Compare with InnoDB and MyRocks under sysbench, interleaved (SYSBENCH_ARGS=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-sysbench $(SYSBENCH_ARGS)

bench-ranges: setup ## Queries of 10 to 1000 rows, and of whole tables, by key and by index, beside InnoDB (RANGES_ARGS=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-ranges $(RANGES_ARGS)

bench-writes: setup ## The scripts of sysbench that only write, at 32 and 64 threads, with thread pools too (ROUNDS=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-sysbench --writes

bench-tpcc: setup ## TPC-C through SQL, its conflicts counted, beside InnoDB (TPCC_ARGS=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-tpcc $(TPCC_ARGS)

bench-tpcc-library: setup ## TPC-C through the library, in both engines, every condition checked (TPCC_LIBRARY_ARGS=)
	cargo build --release --quiet --bin spillway-bench
	target/release/spillway-bench tpcc $(TPCC_LIBRARY_ARGS)

bench-large-update: setup ## One UPDATE of every row of a table larger than memory, and its rollback, beside InnoDB (ROWS=, MEMORY_MIB=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-large-update

bench-memory: setup ## The process's memory compared with its budget, from 128 MiB to 4 GiB (MEMORIES_MIB=, ROWS=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-memory

bench-hot-row: setup ## One hot row beside the same updates over a million, beside InnoDB and MyRocks (HOT_ROW_ARGS=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-hot-row $(HOT_ROW_ARGS)

bench-space: setup ## Disk space of tables after a load and an hour's worth of updates, beside InnoDB and MyRocks (SPACE_ARGS=)
	@scripts/setup sysbench
	cargo build --release --quiet -p spillway-cli --features ablation
	scripts/bench-space $(SPACE_ARGS)

bench-cold: setup ## Random rows on a device, through a server, beside the device alone (COLD_ARGS=)
	@scripts/setup cold
	cargo build --release --quiet --bin spillway --bin spillway-bench --features spillway-cli/ablation
	scripts/bench-cold $(COLD_ARGS)

bench-connections: setup ## 64 and 2,000 connections with a commit in flight each, beside InnoDB and MyRocks (CONNECTIONS_ARGS=)
	@scripts/setup sysbench
	cargo build --release --quiet --bin spillway --bin spillway-bench --features spillway-cli/ablation
	scripts/bench-connections $(CONNECTIONS_ARGS)
