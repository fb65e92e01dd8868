// Command server serves one kind of load, calls itself, and has net/http/pprof, for the test of "tarn doctor". It prints the address.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

var kept [16][]byte

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	load := map[string]func(string) error{"grpc": callGRPC, "http2": callHTTP2, "compute": compute, "allocate": allocate, "idle": nil}[os.Args[1]]
	for range 4 {
		go func() {
			if load != nil {
				log.Fatal(load(ln.Addr().String()))
			}
		}()
	}
	fmt.Printf("http://%v\n", ln.Addr())
	http.HandleFunc("/small", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "small") })
	server := &http.Server{Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // the end of the test
	log.Fatal(server.Serve(ln))
}

func callGRPC(string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go server.Serve(ln)
	cc, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	for {
		if _, err := healthpb.NewHealthClient(cc).Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
			return err
		}
	}
}

func callHTTP2(addr string) error {
	t := &http.Transport{Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	c := &http.Client{Transport: t}
	for {
		resp, err := c.Get("http://" + addr + "/small")
		if err != nil {
			return err
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func compute(string) error {
	sum := sha256.Sum256(nil)
	for {
		for range 1000 {
			sum = sha256.Sum256(bytes.Repeat(sum[:8], 4))
		}
	}
}

func allocate(string) error {
	for i := 0; ; i++ {
		frame(i)
	}
}

//go:noinline
func frame(i int) { kept[i%len(kept)] = make([]byte, 64<<10) }
