package rpc_test

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// newestGRPC reports whether grpc-go is a version that package rpc is compared with: 1.84, which the workspace has, or later. Behaviour that has changed
// since the lowest version in go.mod is compared there, under the race detector.
func newestGRPC() bool {
	minor, _, _ := strings.Cut(strings.TrimPrefix(grpc.Version, "1."), ".")
	n, err := strconv.Atoi(minor)
	return err == nil && n >= 84
}

// TestHTTPStatusAsInGRPC: what a client makes of HTTP statuses, content types and statuses of gRPC that do not go together.
func TestHTTPStatusAsInGRPC(t *testing.T) {
	const details = "grpc-status-details-bin"
	for _, c := range []struct {
		name            string
		header, trailer []string
		want            codes.Code
		message         string // what it begins with
		ours            bool   // grpc-go's code is UNKNOWN, without a message
	}{
		{"HTML with statuses of gRPC", []string{":status", "403", "content-type", "text/html", "grpc-status", "1", details, "???"}, nil,
			codes.PermissionDenied, `unexpected HTTP status code received from server: 403 (Forbidden); transport: received unexpected content-type "text/html"`, false},
		{"no content type", []string{":status", "404", details, "???"}, nil,
			codes.Unimplemented, "unexpected HTTP status code received from server: 404 (Not Found); malformed header: missing HTTP content-type", false},
		{"HTML", []string{":status", "200", "content-type", "text/html"}, []string{"grpc-status", "0"},
			codes.Unknown, `unexpected HTTP status code received from server: 200 (OK); transport: received unexpected content-type "text/html"`, false},
		{"a number that is none", []string{":status", "502", "content-type", "application/grpc", "grpc-status", "abc"}, nil,
			codes.Unknown, "transport: malformed grpc-status", false},
		{"a status of gRPC beside one of HTTP", []string{":status", "502", "content-type", "application/grpc", "grpc-status", "3", "grpc-message", "m"}, nil,
			codes.InvalidArgument, "m", false},
		{"a status of gRPC after one of HTTP", []string{":status", "404", "content-type", "application/grpc"}, []string{"grpc-status", "9", "grpc-message", "m"},
			codes.FailedPrecondition, "m", false},
		{"malformed details after a status of HTTP", []string{":status", "404", "content-type", "application/grpc"}, []string{"grpc-status", "9", details, "???"},
			codes.Internal, "transport: malformed " + details, false},
		{"details of another code", []string{":status", "200", "content-type", "application/grpc"}, []string{"grpc-status", "9", "grpc-message", "m", details, "CAM"},
			codes.Internal, details + ` mismatch: grpc-status=FailedPrecondition, grpc-message="m", ` + details + "=code:3", false},
		{"no status of gRPC after one of HTTP", []string{":status", "503", "content-type", "application/grpc"}, []string{"x", "y"},
			codes.Unavailable, "unexpected HTTP status code received from server: 503 (Service Unavailable)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := rawServer(t, func(p *rawPeer, id uint32) {
				p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(c.header...), EndHeaders: true, EndStream: c.trailer == nil})
				if c.trailer != nil {
					p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(c.trailer...), EndHeaders: true, EndStream: true})
				}
			})
			clients := map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr)}
			if newestGRPC() {
				clients["grpc-go"] = dialGRPC(t, addr)
			}
			for name, cc := range clients {
				_, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{})
				want, message := c.want, c.message
				if c.ours && name == "grpc-go" {
					want, message = codes.Unknown, ""
				}
				if st := status.Convert(err); st.Code() != want || !strings.HasPrefix(st.Message(), message) {
					t.Errorf("%s: %v, not %v: %s", name, err, want, message)
				}
			}
		})
	}
}
