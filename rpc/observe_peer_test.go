package rpc

import (
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tarn-go/tarn/debug/endpoint"
)

// TestObservedBytesOfPeers: whatever bytes a client sends as a method and whatever code a server sends, the call is counted, and the
// names can be labels of metrics.
func TestObservedBytesOfPeers(t *testing.T) {
	o := new(observer)
	for _, code := range []codes.Code{codes.OK, codes.Unauthenticated, codes.Unauthenticated + 1, math.MaxInt32 + 1, math.MaxUint32} {
		for _, method := range []string{"/x/\xff", "/x/\xfe", "/x/y"} {
			o.begin(method, working).end(status.Error(code, ""), nil)
		}
	}
	var s endpoint.State
	o.report(&s, ofServer)
	if len(s.Methods) != 2 || s.Methods[0].Name != otherMethods || s.Methods[0].Started != 10 || s.Methods[1].Name != "/x/y" || s.Methods[1].Started != 5 {
		t.Errorf("%+v", s.Methods)
	}
	if s.Calls != 15 || s.Done != 15 || s.Failed != 12 {
		t.Errorf("%d calls, %d done, %d failed", s.Calls, s.Done, s.Failed)
	}
}
