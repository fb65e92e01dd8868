// Command xds shows a client that gets its routes from an xDS control plane, which runs in the same process. While calls go on, the control
// plane moves the route to another cluster: no call fails.
//
//	cd examples/xds && go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/examples/xds/plane"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/xds"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

func main() {
	if err := run(); err != nil {
		log.SetFlags(0)
		log.Print(err)
		os.Exit(1)
	}
}

// server answers with the name of its cluster.
type server struct {
	pb.UnimplementedTestServiceServer
	cluster string
}

func (s *server) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Hostname: s.cluster}, nil
}

// backend starts a server of a cluster and returns its address.
func backend(cluster string) (addr string, stop func(), err error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, &server{cluster: cluster})
	go func() {
		if err := s.Serve(lis); err != nil {
			log.Print(err)
		}
	}()
	return lis.Addr().String(), s.Stop, nil
}

func run() (err error) {
	blue, stopBlue, err := backend("blue")
	if err != nil {
		return err
	}
	defer stopBlue()
	green, stopGreen, err := backend("green")
	if err != nil {
		return err
	}
	defer stopGreen()

	control, err := plane.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, control.Close()) }()
	// The control plane sends each client what it routes to; the rest of the resources waits until it is asked for.
	route := func(cluster string) error {
		return control.Set(plane.Listener("greeter", []*routepb.Route{plane.RouteTo("/", cluster)}),
			plane.Cluster("blue"), plane.Endpoints("blue", []string{blue}),
			plane.Cluster("green"), plane.Endpoints("green", []string{green}))
	}
	if err := route("blue"); err != nil {
		return err
	}

	cc, err := rpc.NewClient("xds:///greeter",
		rpc.WithResolvers(xds.NewResolver(xds.Bootstrap(control.Bootstrap()))),
		rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cc.Close()) }()
	client := pb.NewTestServiceClient(cc)

	// One call each millisecond for a second; half-way the route moves.
	var calls sync.WaitGroup
	var atBlue, atGreen, failed atomic.Int64
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range 1000 {
		if i == 500 {
			if err := route("green"); err != nil {
				return err
			}
		}
		<-tick.C
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			r, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
			switch {
			case err != nil:
				failed.Add(1)
			case r.Hostname == "blue":
				atBlue.Add(1)
			default:
				atGreen.Add(1)
			}
		})
	}
	calls.Wait()
	fmt.Printf("blue %d, green %d, failed %d\n", atBlue.Load(), atGreen.Load(), failed.Load())
	return nil
}
