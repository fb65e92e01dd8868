// Command proxy is a transparent gRPC reverse proxy: it forwards every call of
// every service to one backend, message by message, as the received bytes,
// without decoding or copying them. It needs no descriptors.
//
//	proxy -listen 127.0.0.1:8080 -backend dns:///service:50051
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve on")
	backend := flag.String("backend", "", "gRPC target to forward to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once, whatever calls go on
	if err := run(ctx, *listen, *backend); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen, backend string) error {
	lis, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	cc, err := rpc.NewClient(backend, rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		lis.Close()
		return err
	}
	defer cc.Close()
	fmt.Println("listening on", lis.Addr())
	s := rpc.NewServer(rpc.UnknownServiceHandler(forwardTo(cc)))
	defer context.AfterFunc(ctx, s.GracefulStop)()
	return s.Serve(lis)
}
