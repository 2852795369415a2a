# Two commands matter: `make demo` and `make test`. Each sets up what it needs; Python 3.11+ and Java 17+ must be there.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup test lint types imports pytest demo sim mutants properties model promises standing chaos chaos-spark ship \
	bench-cluster bench-cluster-kafka bench-group bench-advance bench-start bench-hold bench-steps bench-group-kafka bench-decoder bench-datapath bench-memory compare-kafka-source compat fuzz-decoder fuzz-node deploy-check clean

help:
	@echo 'make demo      run the main job on real flights, end to end (under 4 minutes; NODES=3 for a cluster)'
	@echo 'make test      all checks and tests'
	@echo 'make lint | types | imports | tidy | pytest    one of them'
	@echo 'make sim SEED=0 RUNS=500 JOBS=2    run the real coordinator and members through simulated failures'
	@echo 'make mutants   plant known mistakes and see that the simulator finds each'
	@echo 'make model     three replicas of a shard through every order of what can happen, in small scopes, and planted mistakes'
	@echo 'make properties RUNS=5   every property on examples drawn anew (2 minutes a run)'
	@echo 'make promises  schedules that once broke a promise, on a real broker, node and Spark (NAMES="word word" for some)'
	@echo 'make standing  floods, wild numbers, signals and bad machines on a real node, a good client beside it (12 minutes; CASE=word)'
	@echo 'make compare-kafka-source   the same reads by kcoord and by spark-sql-kafka, which must be equal (10 minutes)'
	@echo 'make compat    the same short suite on each Spark that kcoord runs on, classic and Connect (WORDS="4.2 connect" for some)'
	@echo 'make bench-group     joins, deaths, pings and commits of a large group on one coordinator (2 minutes; TLS=1 with TLS and log-ins)'
	@echo 'make bench-cluster   commits of three nodes, and what 5,000 members notice when one of them dies (4 minutes)'
	@echo 'make bench-cluster-kafka   the coordinator of 500 members killed: three Kafka brokers and three nodes, in turns (4 minutes)'
	@echo 'make bench-advance   micro-batches of 8, 100 and 1,000 partitions of 500 Spark members, and a start after them (4 minutes)'
	@echo 'make bench-start     a start with 10,000 groups whose members own 100 partitions each (half a minute)'
	@echo 'make bench-steps     calls of functions that a death, a ping and a commit take of the core of a large group, and of its server (half a minute)'
	@echo 'make bench-group-kafka   the same on the group coordinator of a real Kafka and on kcoord (3 minutes)'
	@echo 'make chaos-spark SEED=0 KILLS=100    kill Spark drivers, sources, workers and executors of a shared group (under 25 minutes)'
	@echo 'make chaos-consumer SEED=0 KILLS=100   kill, stop and interrupt consumers and Spark queries of one group (under 20 minutes)'
	@echo 'make chaos SEED=0 MINUTES=10    kill, stop and cut off what a cluster is made of, and see that nothing acknowledged is lost'
	@echo 'make mirror-check SEED=0   hold what kafka-consumer-groups.sh shows of a mirrored group against what is committed, under kills (4 minutes; NODES=3 for a cluster)'
	@echo 'make ship      build what executors of a cluster need, for --archives'
	@echo 'make bench-decoder   rows per second of the record batch decoders (2 minutes)'
	@echo 'make bench-datapath  reading Kafka with Spark, kcoord beside spark-sql-kafka (30 minutes; SCALE=0.1 to try, KEEP=1 to put the results into benchmarks/)'
	@echo 'make bench-memory    what a worker needs for records of 1 MB, and for 10,000 partitions in one task (3 minutes)'
	@echo 'make fuzz-decoder    mutated batches against the decoder built with sanitizers (2 minutes; needs gcc)'
	@echo 'make fuzz-node FRAMES=300000   wild requests of every verb to a real node with a real Kafka (5 minutes)'
	@echo 'make hostile FRAMES=1000000 SCALE=1   attacks on a real node, a good client beside it (6 minutes; SCALE=0.05 to try)'
	@echo 'make audit           known vulnerabilities, bandit, a bill of materials (ADVISORIES=DIR where osv.dev is not reached)'
	@echo 'make fuzz MINUTES=10    inputs of the network, the disk and of people, guided by coverage (TARGETS="rules tls" for some)'
	@echo 'make acl-matrix      every verb by every kind of principal on every kind of resource, against a table (a second)'
	@echo 'make compare-kafka-python   the same programs by KafkaConsumer and by kcoord, which must be equal (3 minutes)'
	@echo 'make bench-consumer  the plain consumer beside kafka-python, confluent-kafka and aiokafka (20 minutes; SCALE=0.02 to try)'
	@echo 'make smoke-consumer  the README'"'"'s consumer in a fresh environment without PySpark (2 minutes)'
	@echo 'make shots     pictures of the console, into dist/shots and docs/images (2 minutes; needs a Chromium)'
	@echo 'make bench-console   pages and API of the console at 10,000 groups and 50,000 partitions, the node beside it (2 minutes)'
	@echo 'make deploy-check    unit, manifests, alert rules and boards of deploy/ by systemd, schemas of Kubernetes and promtool (half a minute)'
	@echo 'make setup     only install what the others need'
	@echo 'make clean     remove everything that was made here (the jars in the user cache stay)'

setup:
	@scripts/setup.sh

test: setup
	@scripts/check.sh test ruff format types imports tidy pytest

lint: setup
	@scripts/check.sh lint ruff format

types: setup
	@scripts/check.sh types types

imports: setup
	@scripts/check.sh imports imports

.PHONY: tidy
tidy: setup
	@scripts/check.sh tidy tidy

pytest: setup
	@scripts/check.sh pytest pytest

demo: setup
	@.venv/bin/kcoord demo --nodes $(NODES)

SEED = 0
RUNS = 500
NODES = 1
JOBS = 0

sim: setup
	@.venv/bin/python -m tests.sim run --nodes $(NODES) --seed $(SEED) --runs $(RUNS) --jobs $(JOBS)

mutants: setup
	@.venv/bin/python -m tests.sim mutants --jobs $(JOBS)

properties: RUNS = 5
properties: setup
	@.venv/bin/python -m tests.properties --runs $(RUNS)

model: setup
	@.venv/bin/python -m tests.model --jobs $(JOBS)

NAMES =

promises: setup
	@.venv/bin/python -m tests.promises $(NAMES)

CASE =

standing: setup
	@.venv/bin/python -m tests.standing $(CASE)

bench-group: setup
	@.venv/bin/python -m benchmarks.group $(if $(TLS),--tls)

bench-cluster: setup
	@.venv/bin/python -m benchmarks.cluster

bench-cluster-kafka: setup
	@.venv/bin/python -m benchmarks.cluster_kafka

bench-advance: setup
	@.venv/bin/python -m benchmarks.advance

bench-start: setup
	@.venv/bin/python -m benchmarks.owned_start

bench-hold: setup
	@.venv/bin/python -m benchmarks.longest_hold

bench-steps: setup
	@.venv/bin/python -m benchmarks.group_steps

bench-group-kafka: setup
	@.venv/bin/python -m benchmarks.group_kafka

compare-kafka-source: setup
	@.venv/bin/python -m tests.compare

WORDS =

deploy-check: setup
	@scripts/deploy_check.sh

compat: setup
	@.venv/bin/python -m tests.compat $(WORDS)

MINUTES = 10

chaos: setup
	@.venv/bin/python -m tests.chaos_cluster --seed $(SEED) --minutes $(MINUTES)

KILLS = 100

chaos-spark: setup
	@.venv/bin/python -m tests.chaos --seed $(SEED) --kills $(KILLS)

.PHONY: chaos-consumer
chaos-consumer: setup
	@.venv/bin/python -m tests.chaos_consumer --seed $(SEED) --kills $(KILLS)

.PHONY: mirror-check
mirror-check: setup
	@.venv/bin/python -m tests.mirror_check --seed $(SEED) --nodes $(NODES)

ship: setup
	@.venv/bin/python -m spark_kcoord.deploy.ship dist/kcoord-executors.tar.gz

bench-decoder: setup
	@.venv/bin/python benchmarks/decoder.py

FRAMES = 300000

fuzz-node: setup
	@.venv/bin/python -m tests.fuzz_node --frames $(FRAMES) --seed $(SEED)

.PHONY: hostile
hostile: FRAMES = 0
hostile: setup
	@.venv/bin/python -m tests.hostile --frames $(FRAMES) --scale $(SCALE) --seed $(SEED)

.PHONY: audit fuzz
ADVISORIES =
ADVISORY_DAYS = 30

audit:
	@scripts/setup.sh audit
	@.tools/audit/bin/python scripts/audit.py $(if $(ADVISORIES),--advisories $(ADVISORIES)) --most-days $(ADVISORY_DAYS)

TARGETS =

fuzz:
	@scripts/setup.sh fuzz
	@.tools/fuzz/bin/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) $(TARGETS)

.PHONY: acl-matrix
acl-matrix: setup
	@.venv/bin/python -m tests.acl_matrix

.PHONY: smoke-consumer compare-kafka-python
compare-kafka-python: setup
	@.venv/bin/python -m tests.compare_consumer $(WORDS)

smoke-consumer: setup
	@.venv/bin/python -m tests.smoke_consumer

SCALE = 1.0
REPS = 5
KEEP =

bench-datapath: setup
	@.venv/bin/python -m benchmarks.datapath --scale $(SCALE) --reps $(REPS) $(if $(KEEP),--keep)

.PHONY: bench-consumer
bench-consumer: setup
	@.venv/bin/python -m benchmarks.consumer --scale $(SCALE) --rounds $(REPS)

.PHONY: shots bench-console
shots: setup
	@.venv/bin/python -m tests.browser.shots

bench-console: setup
	@.venv/bin/python -m benchmarks.console

bench-memory: setup
	@.venv/bin/python -m benchmarks.reader_memory

fuzz-decoder: setup
	@.venv/bin/python scripts/fuzz_decoder.py

clean:
	rm -f spark_kcoord/fetch/decoding/_native.*.so
	rm -rf .venv .tools .fuzz .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
