package rpc_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// Compares the :authority and host that a handler gets (gRFC A41) with both implementations. A stream with
// two hosts is refused.
func TestHostAndAuthority(t *testing.T) {
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return &pb.SimpleResponse{}, grpc.SetHeader(ctx, metadata.Pairs("saw", fmt.Sprint(md[":authority"], md["host"])))
	}}
	_, ours := startTarn(t, svc)
	_, theirs := startGRPC(t, svc)
	base := []string{":method", "POST", ":scheme", "http", ":path", "/grpc.testing.TestService/UnaryCall"}
	rest := []string{"content-type", "application/grpc", "te", "trailers"}
	for _, c := range []struct {
		name   string
		fields []string
		saw    string
	}{
		{"authority", []string{":authority", "a"}, "[a] []"},
		{"host", []string{"host", "h"}, "[h] []"},
		{"both", []string{":authority", "a", "host", "h"}, "[a] []"},
		{"two hosts", []string{":authority", "a", "host", "h", "host", "i"}, ""},
		{"equal hosts", []string{"host", "h", "host", "h"}, ""},
		{"two authorities", []string{":authority", "a", ":authority", "b"}, ""},
	} {
		for server, addr := range map[string]string{"tarn": ours, "grpc-go": theirs} {
			t.Run(c.name+"/"+server, func(t *testing.T) {
				p := rawClient(t, addr)
				var pseudo, regular []string
				for i := 0; i < len(c.fields); i += 2 {
					if c.fields[i] == "host" {
						regular = append(regular, c.fields[i:i+2]...)
					} else {
						pseudo = append(pseudo, c.fields[i:i+2]...)
					}
				}
				fields := slices.Concat(base, pseudo, rest, regular)
				if err := p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block(fields...), EndHeaders: true}); err != nil {
					t.Fatal(err)
				}
				if err := p.fr.WriteData(1, true, make([]byte, 5)); err != nil {
					t.Fatal(err)
				}
				got := p.answer(1)
				switch {
				case c.saw != "" && got["saw"] != c.saw:
					t.Errorf("the handler saw %q of %q, want %q", got["saw"], fields, c.saw)
				case c.saw == "" && got["saw"] != "":
					t.Errorf("%q were taken", fields)
				case c.saw == "" && server == "tarn" && got["rst"] != "PROTOCOL_ERROR":
					t.Errorf("%q are answered with %v", fields, got)
				}
			})
		}
	}
}
