package rpc_test

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// A message that is too large is refused at its prefix, without its payload, even if RecvMsg was waiting
// before the prefix came. A ping's round trip gives RecvMsg the time to begin waiting.
func TestTooLargeIsRefusedWhileWaiting(t *testing.T) {
	receiving := make(chan struct{})
	addr := rawServer(t, func(p *rawPeer, id uint32) {
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true,
			BlockFragment: p.block(":status", "200", "content-type", "application/grpc")})
		<-receiving
		p.fr.WritePing(false, [8]byte{1})
		for {
			fr, err := p.fr.ReadFrame()
			if ping, ok := fr.(*http2.PingFrame); err != nil || ok && ping.IsAck() {
				break
			}
		}
		p.fr.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, 5<<20))
	})
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for range 20 {
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Header(); err != nil {
			t.Fatal(err)
		}
		receiving <- struct{}{}
		_, err = s.Recv()
		wantCode(t, err, codes.ResourceExhausted)
	}
}
