package rpc_test

import (
	"crypto/tls"
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
