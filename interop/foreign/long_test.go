package foreign

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/npm"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// longLists are header lists for which Node, which names no limit, ends the connection, and some that are just short enough.
var longLists = []struct {
	name   string
	values []string
	sent   bool
}{
	{"a string of 64 KiB", []string{strings.Repeat("\\", 64<<10)}, true},
	{"one of a byte more", []string{strings.Repeat("\\", 64<<10+1)}, false},
	{"a list of 144 KiB", []string{strings.Repeat("\\", 47<<10), strings.Repeat("\\", 47<<10), strings.Repeat("\\", 47<<10)}, true},
	{"one of more", []string{strings.Repeat("\\", 49<<10), strings.Repeat("\\", 49<<10), strings.Repeat("\\", 49<<10)}, false},
}

// TestLongMetadata sends a grpc-js server metadata that nghttp2 ends the connection for, while a stream is open on the connection:
// the call ends with INTERNAL and the stream goes on. With grpc-go's client the stream ends, or the connection answers nothing more.
func TestLongMetadata(t *testing.T) {
	ctx := bounded(t)
	c := sides[0].dial(t, start(t, all[1], options{}).addr(), insecure.NewCredentials())
	stream, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range longLists {
		_, err := c.EmptyCall(metadata.NewOutgoingContext(ctx, metadata.MD{"x": l.values}), &testpb.Empty{})
		refused := status.Code(err) == codes.Internal && strings.Contains(err.Error(), "the peer names no limit")
		if l.sent && err != nil || !l.sent && !refused {
			t.Errorf("%s: the call ended: %v", l.name, err)
		}
		if err := stream.Send(&testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: 10}}}); err != nil {
			t.Fatalf("%s: the stream ended: %v", l.name, err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("%s: the stream ended: %v", l.name, err)
		}
	}
	if n := c.dialled.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestLongAnswers is the same with a grpc-js client: it gets INTERNAL for a response header, and its stream goes on.
func TestLongAnswers(t *testing.T) {
	leftout.Need(t, "nodejs, npm", "node")
	addr, stop := serve(t, makers[0].make(t, keepalive.ServerParameters{}), "127.0.0.1:0")
	defer stop(false)
	out, err := exec.CommandContext(bounded(t), "node", "testdata/client.cjs", descriptors(t), addr,
		npm.Modules(t, "../..", "@grpc/grpc-js", "@grpc/proto-loader")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = "a header of 70000: OK, the stream: 10\na header of 80000: INTERNAL, the stream: 10\n"
	if string(out) != want {
		t.Errorf("%.4000s", out)
	}
}
