package rpc_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestConcurrentClientMethods calls each pair of methods of a client stream concurrently, and each method
// beside itself, on a server that answers, one that ends early and one that does nothing until the call is
// cancelled. Each call ends and leaks nothing. Two goroutines in RecvMsg are left out: grpc's contract
// forbids them.
func TestConcurrentClientMethods(t *testing.T) {
	type stream = pb.TestService_FullDuplexCallClient
	methods := []struct {
		name string
		do   func(stream)
	}{
		{"Header", func(s stream) { s.Header() }},
		{"Context", func(s stream) { s.Context() }},
		{"Trailer", func(s stream) { s.Trailer() }},
		{"SendMsg", func(s stream) {
			for range 3 {
				if s.Send(&pb.StreamingOutputCallRequest{Payload: payload(100_000)}) != nil {
					return
				}
			}
		}},
		{"CloseSend", func(s stream) { s.CloseSend() }},
		{"RecvMsg", func(s stream) {
			for {
				if _, err := s.Recv(); err != nil {
					return
				}
			}
		}},
	}
	servers := []struct {
		name string
		do   func(s pb.TestService_FullDuplexCallServer) error
	}{
		{"answers", nil},
		{"ends early", func(s pb.TestService_FullDuplexCallServer) error {
			s.Recv()
			return status.Error(codes.Aborted, "")
		}},
		{"does nothing", func(s pb.TestService_FullDuplexCallServer) error {
			<-s.Context().Done()
			return nil
		}},
	}
	for _, sv := range servers {
		_, addr := startTarn(t, &testService{duplex: sv.do})
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		for i, a := range methods {
			for _, b := range methods[:i+1] {
				if a.name == b.name && a.name == "RecvMsg" {
					continue
				}
				t.Run(sv.name+"/"+a.name+" "+b.name, func(t *testing.T) {
					for range 5 {
						ctx, cancel := context.WithCancel(context.Background())
						s, err := c.FullDuplexCall(ctx)
						if err != nil {
							t.Fatal(err)
						}
						var wg sync.WaitGroup
						for _, m := range []func(stream){a.do, b.do} {
							wg.Add(1)
							go func() {
								defer wg.Done()
								m(s)
							}()
						}
						if sv.do == nil && a.name != "SendMsg" && b.name != "SendMsg" {
							s.CloseSend()
						}
						runtime.Gosched()
						cancel()
						within(t, a.name+" beside "+b.name, wg.Wait)
						within(t, "the end", func() {
							for err == nil {
								_, err = s.Recv()
							}
						})
					}
				})
			}
		}
	}
}

// TestConcurrentServerMethods calls each pair of methods of a server stream concurrently, and each method
// beside itself, for a client that reads and writes, one that reads nothing, and one that cancels. In a
// second form the handler returns meanwhile. Every method returns, and the call leaks nothing.
func TestConcurrentServerMethods(t *testing.T) {
	type stream = pb.TestService_FullDuplexCallServer
	methods := []struct {
		name string
		do   func(stream)
	}{
		{"Context", func(s stream) { <-s.Context().Done() }},
		{"SetHeader", func(s stream) { s.SetHeader(metadata.Pairs("a", "b")) }},
		{"SendHeader", func(s stream) { s.SendHeader(metadata.Pairs("c", "d")) }},
		{"SetTrailer", func(s stream) { s.SetTrailer(metadata.Pairs("e", "f")) }},
		{"grpc.SetHeader", func(s stream) { grpc.SetHeader(s.Context(), metadata.Pairs("g", "h")) }},
		{"grpc.SetTrailer", func(s stream) { grpc.SetTrailer(s.Context(), metadata.Pairs("i", "j")) }},
		{"SendMsg", func(s stream) {
			for s.Send(&pb.StreamingOutputCallResponse{Payload: payload(100_000)}) == nil {
			}
		}},
		{"RecvMsg", func(s stream) {
			for {
				if _, err := s.Recv(); err != nil {
					return
				}
			}
		}},
	}
	clients := []struct {
		name string
		do   func(context.CancelFunc, pb.TestService_FullDuplexCallClient)
	}{
		{"reads and writes", func(cancel context.CancelFunc, s pb.TestService_FullDuplexCallClient) {
			for range 3 {
				s.Send(&pb.StreamingOutputCallRequest{Payload: payload(10_000)})
			}
			s.CloseSend()
			runtime.Gosched()
			cancel()
		}},
		{"reads nothing", func(cancel context.CancelFunc, s pb.TestService_FullDuplexCallClient) {
			s.Header() // or the end, if the handler has returned
			cancel()
		}},
		{"cancels", func(cancel context.CancelFunc, _ pb.TestService_FullDuplexCallClient) { cancel() }},
	}
	for _, returns := range []string{"afterwards", "meanwhile"} {
		var handler atomic.Pointer[func(stream) error]
		_, addr := startTarn(t, &testService{duplex: func(s stream) error { return (*handler.Load())(s) }})
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		for _, cl := range clients {
			for i, a := range methods {
				for _, b := range methods[:i+1] {
					t.Run("returns "+returns+"/"+cl.name+"/"+a.name+" "+b.name, func(t *testing.T) {
						for range 5 {
							var calls, returned sync.WaitGroup
							calls.Add(2)
							returned.Add(1)
							h := func(s stream) error {
								defer returned.Done()
								s.SendHeader(nil) // so that the client gets a header
								for _, m := range []func(stream){a.do, b.do} {
									go func() {
										defer calls.Done()
										m(s)
									}()
								}
								if returns == "afterwards" {
									calls.Wait()
								}
								return status.Error(codes.Aborted, "")
							}
							handler.Store(&h)
							ctx, cancel := context.WithCancel(context.Background())
							s, err := c.FullDuplexCall(ctx)
							if err != nil {
								t.Fatal(err)
							}
							// Cancelling too early would mean that the server gets no call.
							if _, err := s.Header(); err != nil {
								t.Fatal(err)
							}
							cl.do(cancel, s)
							within(t, a.name+" beside "+b.name, func() {
								returned.Wait()
								calls.Wait()
							})
							within(t, "the end", func() {
								for err == nil {
									_, err = s.Recv()
								}
							})
						}
					})
				}
			}
		}
	}
}
