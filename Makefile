# Builds, checks and tests Tarn. `make help` lists the targets.
#
# make test takes at most ten minutes on two cores, from empty caches. Continuous integration (.ci/run) also installs the peers
# that the tests talk to (make deps), and runs race, peers and what checks runs, within an hour.

GO      ?= go
# Modules that users may require, and those for our own use: peers, suites, benchmarks.
PUBLISHED := $(shell ./ci/modules.sh published)
PRIVATE   := $(shell ./ci/modules.sh private)
# The packages of interop that make test runs: those whose imports the published modules' tests have, too, in the same versions.
QUICK   := . ./foreign ./generated/...
# The packages of a private module that are built here. Command rclone-tarn has all of rclone's backends, which take minutes to
# compile; make long builds it.
packages = $(if $(filter smb/rclone,$(1)),.,./...)
# Other platforms for which the modules must build and vet.
PORTS   := linux/386 linux/arm64 linux/s390x darwin/arm64 windows/amd64
# Those for which go vet also looks at the commands, the analyser, the examples and the bridges: what they require takes as long to compile as
# everything else. One has 32 bits, the other another system.
VETTED  := linux/386 windows/amd64
# The two newest releases of Go: the oldest that go.mod admits, and the newest.
OLDEST  := go$(shell sed -n 's/^go //p' go.mod)
NEWEST  := go1.27.1
# The core: packages that are also tested on 32 bits and without unsafe, and what they import.
CORE     = $(shell GOWORK=off $(GO) list -deps . ./tarntest ./adapt ./wire ./sizing | grep ^github.com/tarn-go/tarn)
# Packages of smb that decode lengths which a peer declares.
NARROW  := $(addprefix ./internal/,proto dcerpc ntlm spnego conn)
FUZZTIME ?= 20s
TIMEOUT ?= 20m
BIN     := bin
# Without the debugger's tables a package compiles in nine tenths of the time, and a test binary links in two thirds. Tests of interop that
# build grpc-go and rclone from copies do so with -trimpath, and have what those import from the build cache if it was compiled with it.
export GOFLAGS += -timeout=$(TIMEOUT) -trimpath -gcflags=all=-dwarf=false -ldflags=-w
# How long a test binary waits for races of goroutines that are left. The detector's own default is a second.
export GORACE ?= atexit_sleep_ms=100
# Tests run without go test's own vet, because the target vet covers every module. CI runs a failed test once more (ci/gotest.sh).
GOTEST  := $(if $(CI),$(CURDIR)/ci/gotest.sh,$(GO) test) -vet=off

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: deps
deps: ## install the programs that tests talk to (Samba, nginx, h2load, ...); make test does without those that are missing
	@./ci/deps.sh

.PHONY: test
test: ## ten minutes: format, go.mod, vet, the ports, unit tests of every module in their short forms, with real peers
	@./ci/each.sh vet+fmt ports+tidy units # tidy waits for the module proxy

.PHONY: checks
checks: ## linters, the analyser, usual forms that race leaves out, the other release of Go, 32 bits, no unsafe, FIPS, vet for the ports, the private modules' go.mod, known vulnerabilities
	@./ci/each.sh lint ownership usual releases tags fips vet-ports tidy-private vulnerabilities

.PHONY: long
long: ## hours: the long forms of soaks and other people's suites, xDS under the race detector, every network, fuzzing, whole conversations
	@cd smb/rclone && $(GO) build -o $(abspath $(BIN))/rclone-tarn ./cmd/rclone-tarn
	@TARN_LONG=1 ./ci/each.sh units race peers checks
	@cd interop && GOWORK=off $(GOTEST) -race -short ./xds # beside grpc-go, in one process
	@./ci/each.sh networks fuzz conversations

.PHONY: fmt
fmt: ## fail if a file is not formatted by gofmt
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

# Each module on the versions that its own go.mod asks for, not on the workspace's.
TIDY = for m in $(1); do (cd $$m && GOWORK=off $(GO) mod tidy -diff) || { echo "go.mod of $$m is not tidy"; exit 1; }; done
.PHONY: tidy tidy-private
tidy: ## fail if a go.mod or go.sum of a published module is not as `go mod tidy` would have it
	@$(call TIDY,$(PUBLISHED))

tidy-private: ## the same for the private modules
	@$(call TIDY,$(PRIVATE) ci/tools)

.PHONY: vet
vet: ## go vet, every published module
	@$(GO) vet $(PUBLISHED:%=./%/...)

.PHONY: ports
ports: ## check the types of the published modules and their tests for the other platforms; vet-ports compiles them
	@mkdir -p $(BIN) && cd ci/tools && GOWORK=off $(GO) test -vet=off -short ./... && GOWORK=off $(GO) build -o $(abspath $(BIN))/ports ./ports
	@$(BIN)/ports $(PORTS) -- $(PUBLISHED:%=./%/...)

.PHONY: vet-ports
vet-ports: ## compile the library, and go vet, for the other platforms, and the rest for two of them; go vet of the private modules
	@for p in $(PORTS); do echo "build and vet $$p"; (export GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0; \
	case " $(VETTED) " in *" $$p "*) all="$(PUBLISHED:%=./%/...)" ;; *) all="./... ./rpc/... ./smb/..." ;; esac; \
	$(GO) build ./... ./rpc/... ./smb/... && $(GO) vet $$all) || exit 1; done
	@$(foreach m,$(PRIVATE),echo "vet $(m)"; (cd $(m) && $(GO) vet $(call packages,$(m))) || exit 1;)

.PHONY: gotestsum
gotestsum:
	@[ -z "$(CI)" ] || { mkdir -p $(BIN) && cd ci/tools && GOWORK=off $(GO) build -o $(abspath $(BIN))/gotestsum gotest.tools/gotestsum; }

.PHONY: units
# The published modules are tested together, on the workspace's versions, so that each dependency is compiled once and no processor
# waits for a module's last package. cmd/tarn and examples require what interop does, so that interop's tests compile no dependency once
# more. The targets race and releases test each module on the versions that its own go.mod asks for.
units: gotestsum ## unit tests of the published modules, and of interop those with peers of gRPC; short unless TARN_LONG=1
	@status=0; echo "test the published modules"; $(GOTEST) $(if $(TARN_LONG),,-short) $(PUBLISHED:%=./%/...) || status=1; \
	echo "test interop"; (cd interop && GOWORK=off $(GOTEST) $(if $(TARN_LONG),,-short) $(QUICK)) || status=1; exit $$status

# Packages without concurrency, or whose tests build programs without the detector.
SEQUENTIAL := $(addprefix github.com/tarn-go/tarn/,vet vet/internal/mutate vet/cmd/tarnvet cmd/tarn/internal/migrate ci/internal/house)
.PHONY: race
race: gotestsum ## unit tests of the published modules under the race detector, in their usual forms
	@status=0; for m in $(PUBLISHED); do echo "race $$m"; \
	(cd $$m && GOWORK=off $(GOTEST) -race $$($(GO) list ./... | grep -vxF $(SEQUENTIAL:%=-e %))) || status=1; done; exit $$status

.PHONY: peers
peers: gotestsum ## other implementations and other people's suites; benchmarks once
	@status=0; $(foreach m,$(PRIVATE),echo "test $(m)"; (cd $(m) && $(GOTEST) $(call packages,$(m))) || status=1;) exit $$status

.PHONY: lint
lint: ## staticcheck, every module, and actionlint, at the versions that ci/tools names
	@mkdir -p $(BIN) && cd ci/tools && GOWORK=off $(GO) build -o ../../$(BIN)/ honnef.co/go/tools/cmd/staticcheck github.com/rhysd/actionlint/cmd/actionlint
	@echo actionlint; $(BIN)/actionlint
	@echo "staticcheck of the published modules"; $(BIN)/staticcheck $(PUBLISHED:%=./%/...)
	@$(foreach m,$(PRIVATE),echo "staticcheck $(m)"; (cd $(m) && GOWORK=off $(CURDIR)/$(BIN)/staticcheck $(call packages,$(m))) || exit 1;)

# What tarnvet looks at; its own test names another folder.
OWNED = $(foreach m,$(PUBLISHED) $(PRIVATE),./$(m)/$(patsubst ./%,%,$(call packages,$(m))))
.PHONY: ownership
ownership: ## tarnvet, every module: references that are leaked, used after free or freed twice
	@mkdir -p $(BIN) && (cd vet && GOWORK=off $(GO) build -o $(abspath $(BIN))/tarnvet ./cmd/tarnvet)
	@$(abspath $(BIN))/tarnvet $(OWNED)

.PHONY: usual
usual: gotestsum ## usual forms of what units runs in its short form alone and race leaves out: planted mistakes, the page in a browser, models, many streams, and ClusterFuzzLite's builder
	@status=0; $(GOTEST) ./vet/internal/mutate || status=1; $(GOTEST) -run=Browser ./debug || status=1; $(GOTEST) . ./internal/slab || status=1; \
	(cd ci/tools && GOWORK=off $(GOTEST) ./libfuzzer) || status=1; \
	(cd rpc && TARN_LONG=1 GOWORK=off $(GOTEST) -run='^Test(BreakWhileSending|CutAtEachByte|GatheredRequests)$$' .) || status=1; exit $$status

.PHONY: releases
releases: gotestsum ## the published modules' tests with the newest Go, on the versions of the workspace, and the core's with the oldest that go.mod admits
	@status=0; echo "$(NEWEST) published modules"; GOTOOLCHAIN=$(NEWEST) $(GOTEST) -short $(PUBLISHED:%=./%/...) || status=1; \
	echo "$(OLDEST) core"; GOTOOLCHAIN=$(OLDEST) GOWORK=off $(GOTEST) -short $(CORE) || status=1; exit $$status

.PHONY: tags
tags: gotestsum ## the core without unsafe; the core, and what decodes a peer's lengths, on 32 bits
	@GOWORK=off $(GOTEST) -tags=tarn_safe -short $(CORE)
	@GOARCH=386 CGO_ENABLED=0 GOWORK=off $(GOTEST) -short $(CORE)
	@cd smb && GOARCH=386 CGO_ENABLED=0 GOWORK=off $(GOTEST) -short $(NARROW)
	@cd rpc && GOARCH=386 CGO_ENABLED=0 GOWORK=off $(GOTEST) -short ./internal/message ./internal/jsonpb

.PHONY: fips
fips: gotestsum ## TLS of HTTP/2 and gRPC, SMB's refusal of NTLM, and its login by Kerberos, in a program that enforces FIPS 140-3
	@GODEBUG=fips140=only GOWORK=off $(GOTEST) -short -run='TLS' ./h2 ./h2http
	@cd rpc && GODEBUG=fips140=only GOWORK=off $(GOTEST) -short -run='TLS' .
	@cd smb && GODEBUG=fips140=only GOWORK=off $(GOTEST) -short -run='UnderFIPS' .
	@cd smb/krb5 && GODEBUG=fips140=only GOWORK=off $(GOTEST) -short -run='UnderFIPS' .

# A cell is a package on a network of internal/faultnet, which TARN_NET names.
NETWORKS  ?= tcp tls wrapped memory pipe trickle jitter
NETWORKED ?= wire h2 h2http smb rpc
.PHONY: networks
networks: gotestsum ## tests of wire, h2, h2http, smb and rpc on every network of the network double
	@status=0; for n in $(NETWORKS); do for p in $(NETWORKED); do echo "network $$n: $$p"; \
	(cd $$p && TARN_NET=$$n GOWORK=off $(GOTEST) -short .) || status=1; done; done; exit $$status

# Programs that are run at releases alone, or ask a server. What they require would be many times what ci/tools has.
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
APIDIFF     := golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.14.0 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
INSTALL      = for p in $(1); do GOBIN=$(abspath $(BIN)) GOFLAGS= GOWORK=off $(GO) install $$p || exit 1; done

.PHONY: vulnerabilities
vulnerabilities: ## govulncheck, what a release tags, by vuln.go.dev or the module proxy's copy of its reports; left out, and listed, where neither can be reached
	@./ci/vulnerabilities.sh $(GOVULNCHECK)

.PHONY: api
api: ## how the exported API differs from BASE, by default the latest version
	@$(call INSTALL,$(APIDIFF)); PATH=$(abspath $(BIN)):$$PATH ./ci/api.sh $(BASE) $(MODULES)

# RELEASE makes the binaries with goreleaser's flags $(1), and prints their sizes and how many other modules each is made of.
RELEASE = $(call INSTALL,$(GORELEASER)); PATH=$(abspath $(BIN)):$$PATH goreleaser release --clean $(1) -f ci/release/goreleaser.yaml && \
	for f in $(BIN)/release/dist/*/*; do \
	printf '%9d bytes %4d modules  %s\n' "$$(wc -c < $$f)" "$$($(GO) version -m $$f | grep -c '^[[:space:]]*dep')" "$${f\#$(BIN)/release/dist/}"; done
.PHONY: snapshot binaries
snapshot: ## the binaries of a release, with their checksums and lists of modules, from this commit, in bin/release/dist; prints their sizes
	@$(call RELEASE,--snapshot)

binaries: ## the same from the tag that is checked out, and publishes them
	@$(call RELEASE,)

.PHONY: site
site: ## the documentation as a site, in bin/site; needs python3 with venv, and installs mkdocs-material in bin/site-env
	@[ -x $(BIN)/site-env/bin/mkdocs ] || { python3 -m venv $(BIN)/site-env && $(BIN)/site-env/bin/pip install -q -r ci/site/requirements.txt; }
	@NO_MKDOCS_2_WARNING=1 $(BIN)/site-env/bin/mkdocs build --strict -q -f ci/site/mkdocs.yml && echo "$(BIN)/site/index.html"

.PHONY: bench
bench: ## benchmarks beside peers, a quarter of an hour; prints Markdown
	./bench/run.sh

.PHONY: bench-check
bench-check: ## twenty minutes: which rows of tarn bench fell by more than 5 % since BASE, by default the latest version, and what is behind its peers
	@cd bench && $(GO) run ./check $(if $(BASE),-base $(BASE))

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@./ci/fuzz.sh $(FUZZTIME)

.PHONY: conversations
conversations: ## fuzz whole conversations of servers and clients, h2's and rpc's, for an hour in all
	@./ci/fuzz.sh 15m '^Fuzz(Server|Client)(Conversation)?$$'
