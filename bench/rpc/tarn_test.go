package rpc

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// tarnPeer is Tarn's runtime with its defaults, with the same stub and the same service as grpc-go.
func tarnPeer() peer {
	return peer{
		name: "tarn",
		serve: func(tb testing.TB, l net.Listener, sec security) {
			s := rpc.NewServer(rpc.MaxRecvMsgSize(maxMessage), rpc.Creds(sec.grpcServer()))
			pb.RegisterBenchmarkServiceServer(s, newService())
			go s.Serve(l) // ends with Stop
			tb.Cleanup(s.Stop)
		},
		client: func(tb testing.TB, addr string, sec security) client {
			cc, err := rpc.NewClient("passthrough:///"+addr,
				rpc.WithTransportCredentials(sec.grpcClient()),
				rpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { cc.Close() })
			return stubClient{pb.NewBenchmarkServiceClient(cc)}
		},
	}
}
