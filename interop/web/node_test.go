package web

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/npm"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// modules is where ci/deps.sh installs clients from npm.
func modules(t *testing.T, wanted ...string) string {
	t.Helper()
	leftout.Need(t, "nodejs, npm", "node")
	return npm.Modules(t, "../..", wanted...)
}

// descriptors writes the test service's files, with all they import, for clients without generated code.
func descriptors(t *testing.T) string {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(pb.File_grpc_testing_test_proto)
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "test.binpb")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func node(t *testing.T, ok int, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(ctxFor(t), "node", args...).CombinedOutput()
	if got := strings.Count(string(out), "ok "); err != nil || got != ok {
		t.Errorf("%v, %d of %d:\n%s", err, got, ok, out)
	}
}

func TestConnectES(t *testing.T) {
	dir := modules(t, "@connectrpc/connect-node", "@bufbuild/protobuf")
	h := start(t)
	node(t, 10, "testdata/connect.cjs", h.URL, descriptors(t), dir)
}

func TestGRPCWebJS(t *testing.T) {
	dir := modules(t, "grpc-web", "xhr2")
	h := start(t)
	node(t, 2, "testdata/grpcweb.cjs", h.URL, dir)
}

// TestCurl: curl calls a method by ServeHTTP and on the port of Serve, plain and over TLS, with both versions of HTTP.
func TestCurl(t *testing.T) {
	leftout.Need(t, "curl", "curl")
	cert, _ := testcert.New(t)
	creds := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}})
	for name, url := range map[string]string{
		"ServeHTTP":      start(t).URL,
		"Serve":          "http://" + listen(t),
		"Serve over TLS": "https://" + listen(t, rpc.Creds(creds)),
	} {
		for _, version := range []string{"--http1.1", "--http2", "--http2-prior-knowledge"} {
			if version == "--http2" && name == "Serve" { // curl would ask for an upgrade
				continue
			}
			out, err := exec.CommandContext(ctxFor(t), "curl", "-sSk", version, "-H", "Content-Type: application/json",
				"-d", `{"payload":{"body":"aGVsbG8="}}`, url+base+"UnaryCall").CombinedOutput()
			if err != nil || !strings.Contains(strings.ReplaceAll(string(out), " ", ""), `{"payload":{"body":"aGVsbG8="}}`) {
				t.Errorf("%s, %s: %s %v", name, version, out, err)
			}
		}
	}
}
