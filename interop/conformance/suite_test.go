package tarn

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/conformance/internal"
	"connectrpc.com/conformance/internal/app/connectconformance"
)

// config is what rpc supports, for the suite.
const config = `
features:
  versions: [HTTP_VERSION_1, HTTP_VERSION_2]
  protocols: [PROTOCOL_CONNECT, PROTOCOL_GRPC, PROTOCOL_GRPC_WEB]
  codecs: [CODEC_PROTO, CODEC_JSON]
  compressions: [COMPRESSIONS]
  supportsTlsClientCerts: true
`

// As in grpc-go, clients of gRPC have JSON if a codec of that name is registered. Servers always have it: TestGRPCWithJSON of rpc.
const noGRPCInJSON = `
  - protocol: PROTOCOL_GRPC
    codec: CODEC_JSON
`

// Serve accepts HTTP/1.1 in plaintext only.
const noHTTP1OverTLS = `
  - version: HTTP_VERSION_1
    useTls: true
`

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name     string
		excluded string
		known    failures
	}{
		{"server on Serve", "excludeCases:" + noHTTP1OverTLS, serverFailures},
		{"server on net/http", "", serverFailures},
		{"server on h2http", "", serverFailures},
		{"client", "excludeCases:" + noGRPCInJSON, clientFailures},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, c.name, c.excluded, c.known)
		})
	}
}

// run runs the suite against a peer.
func run(t *testing.T, name, excluded string, known failures) {
	for pattern, why := range known {
		t.Logf("known to fail: %s: %s", pattern, why)
	}
	reports := t.TempDir()
	command := []string{os.Args[0], name, reports}
	f := &connectconformance.Flags{
		ConfigFile: filepath.Join(t.TempDir(), "config.yaml"), KnownFailingPatterns: slices.Collect(maps.Keys(known)),
		MaxServers: 4, Parallelism: 8, ServerBind: "127.0.0.1", Verbose: true,
	}
	if name == "client" {
		f.ClientCommand = command
	} else {
		f.ServerCommand = command
	}
	compressions := "COMPRESSION_IDENTITY, COMPRESSION_GZIP"
	if os.Getenv("TARN_LONG") != "" {
		compressions += ", COMPRESSION_BR, COMPRESSION_ZSTD, COMPRESSION_DEFLATE, COMPRESSION_SNAPPY"
	}
	text := strings.Replace(config, "COMPRESSIONS", compressions, 1) + excluded
	if err := os.WriteFile(f.ConfigFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	printer := internal.NewPrinter(&out)
	ok, err := connectconformance.Run(f, printer, printer)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Errorf("%s", out.String())
	}
	t.Logf("with %s: %s", compressions, regexp.MustCompile(`(?s)Total cases.*`).FindString(out.String()))
	left, err := filepath.Glob(filepath.Join(reports, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		text, err := os.ReadFile(file)
		t.Errorf("%s %v", text, err)
	}
}
