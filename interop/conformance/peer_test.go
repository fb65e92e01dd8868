package tarn

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/conformance/internal"
	"connectrpc.com/conformance/internal/compression"
	"connectrpc.com/connect/v2"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip"
)

// peers are the programs that the suite starts: the test binary, whose arguments are one of these names and a folder. There
// each peer has a file until it has ended without a failure.
var peers = map[string]func(*peer) error{
	"server on Serve":    func(p *peer) error { return p.server(onServe) },
	"server on net/http": func(p *peer) error { return p.server(onNetHTTP) },
	"server on h2http":   func(p *peer) error { return p.server(onH2HTTP) },
	"client":             (*peer).client,
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && peers[os.Args[1]] != nil {
		runPeer(os.Args[1], os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// peer is a server or a client under test. It is the testing.TB of its pool.
type peer struct {
	testing.TB
	name     string
	codec    internal.Codec
	cleanups []func()
	failures []string
}

func (p *peer) Helper()          {}
func (p *peer) Name() string     { return p.name }
func (p *peer) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }
func (p *peer) Errorf(format string, args ...any) {
	p.failures = append(p.failures, fmt.Sprintf(format, args...))
}
func (p *peer) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// runPeer runs a peer and writes its report.
func runPeer(name, folder string) {
	report := filepath.Join(folder, strconv.Itoa(os.Getpid()))
	p := &peer{name: name, codec: internal.NewCodec(false)}
	p.write(report, "it has not ended")
	for _, name := range []string{compression.Brotli, compression.Deflate, compression.Snappy, compression.Zstd} {
		encoding.RegisterCompressor(compressorOf(name))
	}
	if err := peers[name](p); err != nil {
		p.Errorf("%v", err)
	}
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
	if len(p.failures) > 0 {
		p.write(report, p.failures...)
		return
	}
	if err := os.Remove(report); err != nil {
		panic(err)
	}
}

func (p *peer) write(report string, lines ...string) {
	if err := os.WriteFile(report, []byte(p.name+": "+strings.Join(lines, "\n")), 0o600); err != nil {
		panic(err)
	}
}

// compressor is one of the suite's compressors in the form of package encoding.
type compressor struct{ connect.Compressor }

func (c compressor) Decompress(r io.Reader) (io.Reader, error) { return c.Compressor.Decompress(r) }

func compressorOf(name string) encoding.Compressor {
	for _, c := range compression.All() {
		if c.Name() == name {
			return compressor{c}
		}
	}
	panic(name)
}
