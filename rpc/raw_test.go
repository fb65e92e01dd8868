package rpc_test

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
)

// TestCompressedRawMessages: raw messages that came compressed are the codec's bytes on both sides, and raw
// messages are compressed like others. Here a client that uses the codec calls a raw handler, and a raw client
// calls it.
func TestCompressedRawMessages(t *testing.T) {
	pool := tarntest.NewPool(t)
	want := &pb.SimpleRequest{Payload: &pb.Payload{Body: bytes.Repeat([]byte("tarn "), 20_000)}}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var other atomic.Int32
	s := rpc.NewServer(rpc.Pool(pool), rpc.WaitForHandlers(true), rpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := rpc.SetSendCompressor(s.Context(), gzip.Name); err != nil {
			return err
		}
		for {
			var m tarn.Chain
			if err := s.RecvMsg(&m); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			got := make([]byte, m.Len())
			if m.CopyTo(got); !bytes.Equal(got, encoded) {
				other.Add(1)
			}
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	}))
	sizes := &compressedSizes{}
	cc := dialTarn(t, serve(t, s), rpc.WithPool(pool), rpc.WithStatsHandler(sizes))
	got := new(pb.SimpleRequest)
	if err := cc.Invoke(ctxFor(t), "/any/thing", want, got, grpc.UseCompressor(gzip.Name)); err != nil || !proto.Equal(want, got) {
		t.Errorf("by the codec: %v", err)
	}
	st, err := cc.NewStream(ctxFor(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/any/thing",
		grpc.UseCompressor(gzip.Name), grpc.ForceCodecV2(rpc.RawCodec{Subtype: "proto"}))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b := pool.Copy(encoded)
		if err := st.SendMsg(&b); err != nil {
			t.Fatal(err)
		}
		var got tarn.Buffer
		if err := st.RecvMsg(&got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), encoded) {
			t.Error("the raw client received other bytes")
		}
		got.Free()
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := st.RecvMsg(new(tarn.Buffer)); err != io.EOF {
		t.Error(err)
	}
	late := pool.Copy(encoded)
	if err := st.SendMsg(&late); err == nil || !late.IsZero() {
		t.Errorf("SendMsg after the call's end: %v, and the caller has its buffer: %v", err, !late.IsZero())
	}
	if n := other.Load(); n != 0 {
		t.Errorf("the raw handler received %d other messages", n)
	}
	if in, out := sizes.in.Load(), sizes.out.Load(); in != 4 || out != 4 {
		t.Errorf("of 4 messages each way %d received and %d sent were compressed", in, out)
	}
}

// compressedSizes is a statistics handler that counts the messages that take less space on the wire than
// their encoding.
type compressedSizes struct{ in, out atomic.Int32 }

func (*compressedSizes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (*compressedSizes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}
func (*compressedSizes) HandleConn(context.Context, stats.ConnStats) {}

func (c *compressedSizes) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InPayload:
		if s.CompressedLength < s.Length/2 {
			c.in.Add(1)
		}
	case *stats.OutPayload:
		if s.CompressedLength < s.Length/2 {
			c.out.Add(1)
		}
	}
}
