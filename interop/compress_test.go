package interop

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// counting is gzip that counts its messages: an application cannot otherwise see whether a message
// was compressed on the wire.
type counting struct {
	encoding.Compressor
	packed, unpacked atomic.Int64
}

func (c *counting) Compress(w io.Writer) (io.WriteCloser, error) {
	c.packed.Add(1)
	return c.Compressor.Compress(w)
}

func (c *counting) Decompress(r io.Reader) (io.Reader, error) {
	c.unpacked.Add(1)
	return c.Compressor.Decompress(r)
}

// TestCompression runs the compression cases of gRPC's test descriptions, which grpc-go's own suite leaves
// out: {client,server}_compressed_{unary,streaming}. A server answers in the request's compression, so the
// four cases are two kinds of call with the counts checked on both sides.
func TestCompression(t *testing.T) {
	gz := &counting{Compressor: encoding.GetCompressor(gzip.Name)}
	encoding.RegisterCompressor(gz)
	defer encoding.RegisterCompressor(gz.Compressor)
	for _, sec := range securities(t) {
		for _, p := range pairings() {
			t.Run(sec.name+"/"+p.name, func(t *testing.T) {
				addr := start(t, p.make(t, sec))
				tc := testpb.NewTestServiceClient(p.dial(t, addr, sec))
				t.Run("compressed_unary", func(t *testing.T) { compressedUnary(testContext(t), t, tc, gz) })
				t.Run("compressed_streaming", func(t *testing.T) { compressedStreaming(testContext(t), t, tc, gz) })
				t.Run("uncompressed", func(t *testing.T) {
					before := gz.packed.Load()
					soak(testContext(t), t, tc)
					if gz.packed.Load() != before {
						t.Fatal("a message was compressed that should not have been")
					}
				})
			})
		}
	}
}

func compressedUnary(ctx context.Context, t *testing.T, tc testpb.TestServiceClient, gz *counting) {
	packed, unpacked := gz.packed.Load(), gz.unpacked.Load()
	out, err := tc.UnaryCall(ctx, &testpb.SimpleRequest{ResponseType: testpb.PayloadType_COMPRESSABLE,
		ResponseSize: soakResponseSize, Payload: interop.ClientNewPayload(testpb.PayloadType_COMPRESSABLE, soakRequestSize)},
		grpc.UseCompressor(gzip.Name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Payload.Body, make([]byte, soakResponseSize)) {
		t.Fatalf("got %d other bytes", len(out.Payload.Body))
	}
	if p, u := gz.packed.Load()-packed, gz.unpacked.Load()-unpacked; p != 2 || u != 2 {
		t.Fatalf("%d messages were compressed and %d decompressed, want 2 and 2", p, u)
	}
}

func compressedStreaming(ctx context.Context, t *testing.T, tc testpb.TestServiceClient, gz *counting) {
	packed, unpacked := gz.packed.Load(), gz.unpacked.Load()
	s, err := tc.FullDuplexCall(ctx, grpc.UseCompressor(gzip.Name))
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{31415, 92653}
	for _, n := range sizes {
		if err := s.Send(&testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: int32(n)}},
			Payload: interop.ClientNewPayload(testpb.PayloadType_COMPRESSABLE, 27182)}); err != nil {
			t.Fatal(err)
		}
		out, err := s.Recv()
		if err != nil || len(out.Payload.Body) != n {
			t.Fatalf("%v, %v", len(out.GetPayload().GetBody()), err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if p, u := gz.packed.Load()-packed, gz.unpacked.Load()-unpacked; p != 4 || u != 4 {
		t.Fatalf("%d messages were compressed and %d decompressed, want 4 and 4", p, u)
	}
}
