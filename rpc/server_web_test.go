package rpc_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
)

// post calls UnaryCall with JSON.
func post(t *testing.T, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctxFor(t), "POST", url+"/grpc.testing.TestService/UnaryCall", strings.NewReader(`{"payload":{"body":"aGVsbG8="}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// clients are net/http's clients of unencrypted HTTP/1.1 and HTTP/2.
func clients(t *testing.T) map[int]*http.Client {
	t.Helper()
	unencrypted := new(http.Protocols)
	unencrypted.SetUnencryptedHTTP2(true)
	list := map[int]*http.Client{1: {Transport: &http.Transport{}}, 2: {Transport: &http.Transport{Protocols: unencrypted}}}
	for _, c := range list {
		t.Cleanup(c.CloseIdleConnections)
	}
	return list
}

// The port on which Serve serves gRPC serves Connect, too, over HTTP/1.1 and HTTP/2, also with credentials that do not encrypt.
func TestServeSpeaksFourProtocols(t *testing.T) {
	for name, opts := range map[string][]rpc.ServerOption{"no credentials": nil, "insecure": {rpc.Creds(insecure.NewCredentials())}} {
		t.Run(name, func(t *testing.T) {
			_, addr := startTarn(t, &testService{}, opts...)
			for major, client := range clients(t) {
				for range 3 {
					res, text := post(t, client, "http://"+addr)
					if res.StatusCode != 200 || res.ProtoMajor != major || !strings.Contains(text, "aGVsbG8=") {
						t.Errorf("HTTP/%d: %d %s %s", major, res.StatusCode, res.Proto, text)
					}
				}
			}
			out, err := pb.NewTestServiceClient(dialTarn(t, addr)).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10)})
			if err != nil || len(out.Payload.Body) != 10 {
				t.Errorf("gRPC: %v", err)
			}
		})
	}
}

// Over TLS the streams of one connection may be of different protocols.
func TestServeSpeaksConnectOverTLS(t *testing.T) {
	cert, roots := testcert.New(t)
	pool := tarntest.NewPool(t)
	s := rpc.NewServer(rpc.Pool(pool), rpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}})))
	pb.RegisterTestServiceServer(s, &testService{})
	addr := serve(t, s)
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	res, text := post(t, client, "https://"+addr)
	if res.StatusCode != 200 || res.ProtoMajor != 2 || !strings.Contains(text, "aGVsbG8=") {
		t.Errorf("%d %s %s", res.StatusCode, res.Proto, text)
	}
}

// TestServeSpeaksHTTP1OverTLS: with "http/1.1" beside "h2" in the NextProtos of its tls.Config a server serves clients that choose
// HTTP/1.1, and the handler's peer has the client's certificate: unary calls, a GET and a stream.
func TestServeSpeaksHTTP1OverTLS(t *testing.T) {
	cert, roots := testcert.New(t)
	auth := make(chan credentials.AuthInfo, 1)
	service := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		p, _ := peer.FromContext(ctx)
		auth <- p.AuthInfo
		return &pb.SimpleResponse{Payload: in.Payload}, nil
	}}
	for _, protos := range [][]string{{"h2", "http/1.1"}, {"http/1.1", "h2"}} {
		t.Run(fmt.Sprint(protos), func(t *testing.T) {
			s, addr := startTarn(t, service, rpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert},
				ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: protos})))
			config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
			transport := &http.Transport{TLSClientConfig: config}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for range 3 {
				res, text := post(t, client, "https://"+addr)
				if res.StatusCode != 200 || res.ProtoMajor != 1 || !strings.Contains(text, "aGVsbG8=") {
					t.Fatalf("%d %s %s", res.StatusCode, res.Proto, text)
				}
				info, ok := (<-auth).(credentials.TLSInfo)
				if !ok || len(info.State.PeerCertificates) != 1 || info.SecurityLevel != credentials.PrivacyAndIntegrity {
					t.Errorf("the handler's peer has %v", info)
				}
			}
			res, err := client.Get("https://" + addr + "/grpc.testing.TestService/UnaryCall?connect=v1&encoding=json&message=%7B%7D")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusMethodNotAllowed { // not without side effects
				t.Errorf("GET: %s", res.Status)
			}
			out, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(rpc.GRPCWeb), rpc.WithTransportCredentials(
				credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1", "h2"}})))).
				StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 10}, {Size: 20}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{10, 20} {
				if m, err := out.Recv(); err != nil || len(m.Payload.Body) != n {
					t.Fatalf("a stream: %v, %v", m, err)
				}
			}
			s.GracefulStop()
		})
	}
}

// GracefulStop waits neither for a connection that has not sent a byte, nor for an idle HTTP/1.1 connection.
func TestGracefulStopWithSilentConnections(t *testing.T) {
	s, addr := startTarn(t, &testService{})
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, client := range clients(t) {
		post(t, client, "http://"+addr)
	}
	s.GracefulStop()
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection is open")
	}
}
