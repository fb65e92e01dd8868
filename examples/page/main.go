// Command page serves the debug page of a program that is at work: a gRPC service whose clients call it, and a cache that holds buffers.
// Open http://localhost:6060/debug/tarn/: one tab has the pools, the other the calls, with their times and what they wait for.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/rpc"
)

func main() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "service", Check: tarn.CheckSampled, CheckEvery: 16}) // so that Who holds what shows something
	if err != nil {
		log.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := rpc.NewServer(rpc.Pool(pool), rpc.ObserveCalls())
	pb.RegisterTestServiceServer(server, service{})
	go server.Serve(lis)

	client, err := rpc.NewClient(lis.Addr().String(), rpc.WithPool(pool), rpc.WithObserveCalls(), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	for range 8 {
		go call(client)
	}
	go cache(pool)

	shown := debug.NewRegistry(pool)
	shown.AddEndpoints(server, client)
	http.Handle("/debug/tarn/", debug.HandlerOf(shown))
	fmt.Println("open http://localhost:6060/debug/tarn/")
	log.Fatal(http.ListenAndServe("localhost:6060", nil))
}

// service answers after a time that is mostly short, and now and then fails.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if err := wait(ctx, time.Duration(float64(2*time.Millisecond)*math.Exp(rand.NormFloat64()))); err != nil {
		return nil, err
	}
	if rand.IntN(100) == 0 {
		return nil, status.Error(codes.Unavailable, "one call of a hundred fails")
	}
	return &pb.SimpleResponse{Payload: in.GetPayload()}, nil
}

// call calls the service for ever, with messages of different sizes.
func call(cc *rpc.ClientConn) {
	stub := pb.NewTestServiceClient(cc)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		body := make([]byte, min(int(900*math.Exp(1.4*rand.NormFloat64())), 1<<20))
		stub.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: body}}) // the page counts errors
		wait(ctx, time.Millisecond)
		cancel()
	}
}

// cache holds four hundred records, and replaces one every 20 ms.
func cache(pool *tarn.Pool) {
	var held [400]tarn.Buffer
	for n := 0; ; n++ {
		record := pool.Get(1 + rand.IntN(64<<10))
		i := n % len(held)
		if n >= len(held) {
			wait(context.Background(), 20*time.Millisecond)
			held[i].Free()
		}
		held[i] = record
	}
}

// wait returns after d, or with ctx's error when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
