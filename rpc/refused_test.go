package rpc_test

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// A message too large is refused at its prefix, with nothing behind it, even if RecvMsg was waiting
// before the prefix came. The prefix comes byte by byte, so that RecvMsg waits amid it.
func TestTooLargeIsRefusedWhileWaiting(t *testing.T) {
	addr := rawServer(t, func(p *rawPeer, id uint32) {
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true,
			BlockFragment: p.block(":status", "200", "content-type", "application/grpc")})
		for _, b := range binary.BigEndian.AppendUint32([]byte{0}, 5<<20) {
			p.fr.WriteData(id, false, []byte{b})
		}
	})
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for range 50 {
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, codes.ResourceExhausted)
	}
}
