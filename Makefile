# Builds, checks and tests Tarn. `make help` lists the targets.

GO      ?= go
# Modules that users may require, and those for our own use: peers, suites, benchmarks.
PUBLISHED := $(shell ./ci/modules.sh published)
PRIVATE   := $(shell ./ci/modules.sh private)
# Other platforms on which the library must build and vet.
PORTS   := linux/386 linux/arm64 linux/s390x darwin/arm64 windows/amd64
# Packages that are also tested on 32 bits and with the oldest Go, and what they import.
CORE     = $(shell GOWORK=off $(GO) list -deps . ./tarntest ./adapt ./wire ./sizing | grep ^github.com/tarn-go/tarn)
SHORT   := $(if $(TARN_LONG),,-short)
OLDEST  := go$(shell sed -n 's/^go //p' go.mod)
FUZZTIME ?= 20s
TIMEOUT ?= 20m
BIN     := bin
# Without the debugger's tables a package compiles in nine tenths of the time, and a test binary links in two thirds.
export GOFLAGS += -timeout=$(TIMEOUT) -gcflags=all=-dwarf=false -ldflags=-w

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# The checks of make test, in lanes that run side by side, the checks of a lane one after the other. The tests under the race detector
# mostly wait for servers, and take longest. What starts no server takes the processor time that these tests leave: first the checks
# that compile little, then those that compile for themselves, and last the two that need what units and peers compile.
LANE_RACE  := race
LANE_TESTS := units peers
LANE_REST  := fmt tidy vet ports oldest tags lint ownership
CHECKS     := $(LANE_RACE) $(LANE_TESTS) $(LANE_REST)
# How many lanes run at a time. 1: one after the other.
LANES ?= 3

.PHONY: test
test: ## everything that must be green, in every module; lists the tests that were left out, that ran again, and what failed
	@export TARN_LEFT_OUT=$$(mktemp) TOOK=$$(mktemp) TARN_LOGS=$$(mktemp -d); \
	$(MAKE) --no-print-directory --keep-going -j$(LANES) lane-race lane-tests lane-rest; status=$$?; \
	echo "TOOK: $$(paste -sd, $$TOOK | sed 's/,/, /g')"; rm -f $$TOOK; ./ci/leftout.sh $$TARN_LEFT_OUT; ./ci/failed.sh $$TARN_LOGS; exit $$status

.PHONY: lane-race lane-tests lane-rest
lane-race: deps gotestsum
	@for check in $(LANE_RACE); do $(MAKE) --no-print-directory check-$$check || exit 1; done

lane-tests: deps gotestsum
	@for check in $(LANE_TESTS); do $(MAKE) --no-print-directory check-$$check || exit 1; done

# The peers are installed meanwhile.
lane-rest:
	@for check in $(LANE_REST); do nice $(MAKE) --no-print-directory check-$$check || exit 1; done

# A check as part of make test: its lines begin with its name, and its time is noted, with the processor time of what it ran. The log
# of one that fails is kept for the end.
.PHONY: $(CHECKS:%=check-%)
$(CHECKS:%=check-%): check-%:
	@bash -o pipefail -c 'start=$$(date +%s); used=$$TARN_LOGS/$*.used; \
	{ $(MAKE) --no-print-directory $* 2>&1; status=$$?; times > $$used; exit $$status; } | sed -u "s/^/$*: /" | tee $$TARN_LOGS/$*; status=$$?; \
	test $$status = 0 || mv $$TARN_LOGS/$* $$TARN_LOGS/$*.failed; \
	awk -F"[ms ]+" -v took=$$(($$(date +%s) - start)) "NR == 2 { printf \"$* %ds (processor %ds)\n\", took, 60*\$$1 + \$$2 + 60*\$$3 + \$$4 }" $$used >> $$TOOK; exit $$status'

.PHONY: test-all
test-all: ## the same with the long forms of soaks and other people's suites, everything compiled for other platforms, every network, a minute of each fuzz target, and an hour of whole conversations
	@TARN_LONG=1 $(MAKE) --no-print-directory test cross networks fuzz conversations TIMEOUT=2h FUZZTIME=1m

.PHONY: deps
deps: ## install the peers that tests talk to, where that is possible
	@./ci/deps.sh

.PHONY: fmt
fmt: ## fail if a file is not formatted by gofmt
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

# Each module on the versions that its own go.mod asks for, not on the workspace's.
.PHONY: tidy
tidy: ## fail if a go.mod or go.sum is not as `go mod tidy` would have it
	@for m in $(PUBLISHED) $(PRIVATE) ci/tools; do (cd $$m && GOWORK=off $(GO) mod tidy -diff) || { echo "go.mod of $$m is not tidy"; exit 1; }; done

# All modules in one run: a package that several of them use is analysed once, and the facts about its
# functions are available in every module.
OWNED = $(patsubst %,./%/...,$(PUBLISHED) $(PRIVATE))

# From source, and without compiling what the packages import; units and peers compile every package on the versions that its
# module asks for, and the target cross compiles for the other platforms.
comma := ,
space := $() $()
.PHONY: vet ports ci-vet
vet: ci-vet ## what go vet says, every module
	@$(abspath $(BIN))/vet $$($(GO) env GOOS)/$$($(GO) env GOARCH) $(OWNED)

ports: ci-vet ## vet for the other platforms
	@$(abspath $(BIN))/vet $(subst $(space),$(comma),$(PORTS)) $(PUBLISHED:%=./%/...)

ci-vet:
	@mkdir -p $(BIN) && cd ci/tools && GOWORK=off $(GO) test ./vet && GOWORK=off $(GO) build -o $(abspath $(BIN))/vet ./vet

.PHONY: ownership
ownership: ## tarnvet, every module: references that are leaked, used after free or freed twice
	@mkdir -p $(BIN) && (cd vet && GOWORK=off $(GO) build -o $(abspath $(BIN))/tarnvet ./cmd/tarnvet)
	@$(abspath $(BIN))/tarnvet $(OWNED)

.PHONY: lint
lint: ## staticcheck, every module, and actionlint, at the versions that ci/tools names
	@mkdir -p bin && cd ci/tools && GOWORK=off $(GO) build -o ../../bin/ honnef.co/go/tools/cmd/staticcheck github.com/rhysd/actionlint/cmd/actionlint
	@echo actionlint; bin/actionlint
	@echo "staticcheck of the published modules"; bin/staticcheck $(PUBLISHED:%=./%/...)
	@for m in $(PRIVATE); do echo "staticcheck $$m"; (cd $$m && GOWORK=off $(CURDIR)/bin/staticcheck ./...) || exit 1; done

.PHONY: cross
cross: ## compile every published package for the other platforms; a part of test-all
	@for p in $(PORTS); do echo "build $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) vet -gcflags='all=-N -l' $(PUBLISHED:%=./%/...) || exit 1; \
	GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) build -gcflags='all=-N -l' $(PUBLISHED:%=./%/...) || exit 1; done

# The tests below are run with -vet=off, because the targets vet and ports cover every module; but for the files that only
# tarn_safe builds.
#
# A test that fails runs again by itself, twice at most, and make test lists it at its end: lanes of servers and peers on two
# cores starve each other for moments. A data race, a panic, more than five failures, and a test binary that failed by itself
# (ci/gotest.sh) count at once.
GOTEST = $(CURDIR)/ci/gotest.sh --format pkgname --format-hide-empty-pkg --format-icons text --hide-summary skipped --rerun-fails=2 \
	--rerun-fails-max-failures=5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race $${TARN_LOGS:+--rerun-fails-report=$$(mktemp -p $$TARN_LOGS again.XXXX)}

.PHONY: gotestsum
gotestsum:
	@mkdir -p $(BIN) && cd ci/tools && GOWORK=off $(GO) build -o $(abspath $(BIN))/gotestsum gotest.tools/gotestsum

# The tests of these packages take minutes and are run by the target race. The target units runs only those that the race detector
# leaves out or would falsify, by their names; with TARN_LONG=1 all. House's tests compare the names with the code.
RACED      := $(addprefix github.com/tarn-go/tarn/,h2 h2http smb smb/gosmb2 cmd/tarn/internal/smb cmd/tarn/internal/bench)
UNDETECTED := Allocations$$|^TestExploreSender$$|^TestDecoderAgainstPlainEntering$$|^TestDecoderRemembersEnteredLiterals$$|^TestRapidResetAtDefaultLimits$$|InItself$$|^TestReferralsTo
.PHONY: units
units: gotestsum ## unit tests of the published modules without the race detector
	@for m in $(PUBLISHED); do echo "test $$m"; (cd $$m && export GOWORK=off && all=$$($(GO) list ./... | tr '\n' ' ') raced=; \
	for p in $(if $(TARN_LONG),,$(RACED)); do case " $$all" in *" $$p "*) raced="$$raced $$p" all=$$(echo " $$all" | sed "s| $$p | |");; esac; done; \
	$(GOTEST) --packages "$$all" -- -vet=off && { [ -z "$$raced" ] || $(GOTEST) --packages "$$raced" -- -vet=off -run '$(UNDETECTED)'; }) || exit 1; done

.PHONY: oldest
oldest: gotestsum ## the core's tests with the oldest Go that go.mod admits
	@GOTOOLCHAIN=$(OLDEST) $(GO) version > /dev/null 2>&1 || { echo "$(OLDEST) cannot be had here"; test -z "$(CI)"; exit; }; \
	GOTOOLCHAIN=$(OLDEST) GOWORK=off $(GOTEST) --packages "$(CORE)" -- -vet=off $(SHORT)

# Besides the core, packages of the root module that are tested on 32 bits, because they decode lengths that a peer declares.
NARROW := $(addprefix github.com/tarn-go/tarn/smb/internal/,proto dcerpc ntlm spnego conn)
.PHONY: tags
tags: gotestsum ## the core without unsafe; the core, and what decodes a peer's lengths, on 32 bits
	@GOWORK=off $(GOTEST) --packages "$(CORE)" -- -tags tarn_safe $(SHORT)
	@GOARCH=386 CGO_ENABLED=0 GOWORK=off $(GOTEST) --packages "$(CORE) $(NARROW)" -- -vet=off $(SHORT)
	@cd rpc && GOARCH=386 CGO_ENABLED=0 GOWORK=off $(GOTEST) --packages "./internal/message ./internal/jsonpb" -- -vet=off $(SHORT)

# Packages whose code runs on one goroutine, or in processes that are built without the detector: the analyser, its planted
# mistakes, its command, the migration, and the rules of the repository. The target units tests them.
SEQUENTIAL := $(addprefix github.com/tarn-go/tarn/,vet vet/internal/mutate vet/cmd/tarnvet cmd/tarn/internal/migrate ci/internal/house)
# How long a test binary waits, before it ends, for races of goroutines that are left. The detector's own default is a second,
# which was more than the tests of half of the packages, and of every child process of a test, took.
export GORACE ?= atexit_sleep_ms=100
# One package at a time: tests that start servers share two cores badly. In the workspace, so that rpc is tested with the newest grpc that any module asks for, too.
.PHONY: race
race: gotestsum ## unit tests under the race detector
	@for m in $(PUBLISHED); do echo "race $$m"; \
	(cd $$m && $(GOTEST) --packages "$$($(GO) list ./... | grep -vxF $(SEQUENTIAL:%=-e %) | tr '\n' ' ')" -- -vet=off -race -p 1) || exit 1; done

# The networks of internal/faultnet that TARN_NET names, and the packages that are tested on them. The long forms of tests run on TCP
# alone. A cell is a package on a network: CELLS_AT_ONCE of them run at a time, and the result of each and its time in seconds are printed at the end.
NETWORKS ?= tcp tls wrapped memory pipe trickle jitter
NETWORKED ?= wire h2 h2http smb rpc
CELLS_AT_ONCE ?= 2
CELLS := $(foreach n,$(NETWORKS),$(NETWORKED:%=network-$n-%))
.PHONY: networks
networks: gotestsum ## tests of wire, h2, h2http, smb and rpc on every network of the network double; lists the results and what was left out
	@export TARN_LEFT_OUT=$$(mktemp) RESULTS=$$(mktemp); unset TARN_LONG; \
	$(MAKE) --no-print-directory --keep-going --output-sync=target -j$(CELLS_AT_ONCE) $(CELLS); status=$$?; \
	echo; echo "NETWORKS: $$(grep -c passed $$RESULTS) of $(words $(CELLS)) passed"; sort $$RESULTS; rm -f $$RESULTS; ./ci/leftout.sh $$TARN_LEFT_OUT; exit $$status

.PHONY: $(CELLS)
$(CELLS): network-%:
	@set -- $(subst -, ,$*); export TARN_NET=$$1; echo "network $$1: $$2"; start=$$(date +%s); result=passed; \
	(cd $$2 && GOWORK=off $(GOTEST) --packages . -- -vet=off -short) || result=FAILED; \
	printf '  %-8s %-7s %s %5ds\n' $$1 $$2 $$result $$(($$(date +%s) - start)) >> $$RESULTS; test $$result = passed

.PHONY: peers
peers: gotestsum ## interop with other implementations, benchmarks once
	@for m in $(PRIVATE); do echo "test $$m"; (cd $$m && $(GOTEST) --packages ./... -- -vet=off) || exit 1; done

.PHONY: bench
bench: ## benchmarks beside peers, a quarter of an hour; prints Markdown
	./bench/run.sh

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@./ci/fuzz.sh $(FUZZTIME)

.PHONY: conversations
conversations: ## fuzz whole conversations of servers and clients, h2's and rpc's, for an hour in all
	@./ci/fuzz.sh 15m '^Fuzz(Server|Client)(Conversation)?$$'
