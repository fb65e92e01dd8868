package rpc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
)

// startWeb serves svc with net/http over HTTP/1.1.
func startWeb(t *testing.T, svc pb.TestServiceServer, opts ...rpc.ServerOption) (*rpc.Server, string) {
	t.Helper()
	s := rpc.NewServer(append([]rpc.ServerOption{rpc.Pool(tarntest.NewPool(t))}, opts...)...)
	pb.RegisterTestServiceServer(s, svc)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL + "/grpc.testing.TestService/"
}

// exchange makes one request and returns the answer and its body.
func exchange(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctxFor(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
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

// Calls a method with JSON, as with curl.
func TestWebJSON(t *testing.T) {
	_, url := startWeb(t, &testService{})
	const in = `{"payload":{"body":"aGVsbG8="}, "unknown": 1}`
	res, text := exchange(t, "POST", url+"UnaryCall", in, "Content-Type", "application/json")
	var out struct{ Payload struct{ Body string } }
	if err := json.Unmarshal([]byte(text), &out); err != nil || res.StatusCode != 200 || out.Payload.Body != "aGVsbG8=" {
		t.Errorf("%d %s %v", res.StatusCode, text, err)
	}
	if got := res.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
}

// TestWebLength reads responses that are shorter and longer than net/http's buffer of 2,048 bytes, 2,047 and 2,051
// among them: each declares its length, so that none needs chunks.
func TestWebLength(t *testing.T) {
	_, url := startWeb(t, &testService{})
	lengths := map[int]bool{}
	for _, n := range []int{0, 1, 1518, 1521, 2000, 100000} {
		body := base64.StdEncoding.EncodeToString(make([]byte, n))
		res, text := exchange(t, "POST", url+"UnaryCall", `{"payload":{"body":"`+body+`"}}`, "Content-Type", "application/json", "Accept-Encoding", "identity")
		if res.ContentLength != int64(len(text)) || len(res.TransferEncoding) > 0 || n > 0 && !strings.Contains(text, body) {
			t.Errorf("a response of %d bytes declares %d, with %v", len(text), res.ContentLength, res.TransferEncoding)
		}
		lengths[len(text)] = true
	}
	if !lengths[2047] || !lengths[2051] {
		t.Errorf("the responses' lengths are %v", lengths)
	}
}

func TestWebRefusals(t *testing.T) {
	s, url := startWeb(t, &testService{})
	long := strings.Repeat("1", 11)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		says                     string
	}{
		{"no content type", "POST", "UnaryCall", "", nil, 415, "content type \"\""},
		{"a foreign content type", "POST", "UnaryCall", "", []string{"Content-Type", "text/html"}, 415, "text/html"},
		{"an unknown codec", "POST", "UnaryCall", "", []string{"Content-Type", "application/xml"}, 415, "application/xml"},
		{"a unary call of a stream", "POST", "FullDuplexCall", "{}", []string{"Content-Type", "application/json"}, 415, ""},
		{"both directions over HTTP/1.1", "POST", "FullDuplexCall", "", []string{"Content-Type", "application/connect+json"}, 505, "HTTP/2"},
		{"gRPC over HTTP/1.1", "POST", "UnaryCall", "", []string{"Content-Type", "application/grpc"}, 505, "HTTP/2"},
		{"an unknown method", "POST", "Nothing", "{}", []string{"Content-Type", "application/json"}, 404, "unknown method"},
		{"PUT", "PUT", "UnaryCall", "{}", []string{"Content-Type", "application/json"}, 405, "calls are made with POST"},
		{"GET of a method with side effects", "GET", "UnaryCall?encoding=json&message={}", "", nil, 405, "NO_SIDE_EFFECTS"},
		{"malformed JSON", "POST", "UnaryCall", "{", []string{"Content-Type", "application/json"}, 400, `"invalid_argument"`},
		{"malformed protobuf", "POST", "UnaryCall", "\xff", []string{"Content-Type", "application/proto"}, 400, `"invalid_argument"`},
		{"malformed gzip", "POST", "UnaryCall", "{}", []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 400, `"invalid_argument"`},
		{"another version", "POST", "UnaryCall", "{}", []string{"Content-Type", "application/json", "Connect-Protocol-Version", "2"}, 400, "version"},
		{"a timeout of letters", "POST", "UnaryCall", "{}", []string{"Content-Type", "application/json", "Connect-Timeout-Ms", "x"}, 400, "digits"},
		{"a timeout of eleven digits", "POST", "UnaryCall", "{}", []string{"Content-Type", "application/json", "Connect-Timeout-Ms", long}, 400, "digits"},
		{"an unknown compression", "POST", "UnaryCall", "{}", []string{"Content-Type", "application/json", "Content-Encoding", "rot13"}, 501, "rot13"},
		{"bad binary metadata", "POST", "UnaryCall", "{}", []string{"Content-Type", "application/json", "X-Bin", "!"}, 400, ""},
	} {
		res, text := exchange(t, c.method, url+c.path, c.body, c.header...)
		if res.StatusCode != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, text)
		}
	}
	s.Stop()
	if res, _ := exchange(t, "POST", url+"UnaryCall", "{}", "Content-Type", "application/json"); res.StatusCode != 503 {
		t.Errorf("after Stop: %d", res.StatusCode)
	}
}

// gRPC-Web's text form: the request may consist of several padded parts, the response has one for each frame.
func TestWebText(t *testing.T) {
	_, url := startWeb(t, &testService{})
	msg, err := proto.Marshal(&pb.SimpleRequest{Payload: payload(1000)})
	if err != nil {
		t.Fatal(err)
	}
	frame := append([]byte{0, 0, 0, byte(len(msg) >> 8), byte(len(msg))}, msg...)
	for _, cut := range []int{1, 5, 6, 100, len(frame)} {
		var text strings.Builder
		for rest := frame; len(rest) > 0; rest = rest[min(cut, len(rest)):] {
			text.WriteString(base64.StdEncoding.EncodeToString(rest[:min(cut, len(rest))]))
		}
		res, answer := exchange(t, "POST", url+"UnaryCall", text.String(), "Content-Type", "application/grpc-web-text+proto")
		out := webText(t, answer)
		if res.StatusCode != 200 || !bytes.Contains(out, body(1000)) || !bytes.Contains(out, []byte("grpc-status: 0\r\n")) {
			t.Errorf("in parts of %d: %d, %d bytes: %.200q", cut, res.StatusCode, len(out), out)
		}
	}
	res, answer := exchange(t, "POST", url+"UnaryCall", "AAAA!", "Content-Type", "application/grpc-web-text")
	if answer == "" || res.StatusCode != 200 {
		t.Errorf("what is not base64: %d %q", res.StatusCode, answer)
	}
}

// TestWebTextInManyParts: what the server allocates for text does not depend on how many padded parts it consists of.
func TestWebTextInManyParts(t *testing.T) {
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(s, &testService{})
	var parts strings.Builder
	for _, b := range prefixed(0, make([]byte, 20_000)) {
		parts.WriteString(base64.StdEncoding.EncodeToString([]byte{b}))
	}
	text := parts.String()
	allocates := func(text string) uint64 {
		r := httptest.NewRequest("POST", "/grpc.testing.TestService/UnaryCall", strings.NewReader(text))
		r.Header.Set("Content-Type", "application/grpc-web-text")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.ServeHTTP(&discarding{header: make(http.Header)}, r)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocates(text)
	if n := allocates(text); n > 10*uint64(len(text)) { // a copy for each part took 500 times the length
		t.Errorf("%d bytes are allocated for %d of text", n, len(text))
	}
}

// webText decodes an answer of gRPC-Web in text, whose parts are padded.
func webText(t *testing.T, answer string) (out []byte) {
	t.Helper()
	for rest := answer; rest != ""; {
		end := strings.IndexByte(rest, '=')
		if end < 0 {
			end = len(rest)
		} else {
			end = min((end+4)&^3, len(rest))
		}
		part, err := base64.StdEncoding.DecodeString(rest[:end])
		if err != nil {
			t.Fatal(err)
		}
		out, rest = append(out, part...), rest[end:]
	}
	return out
}

func TestWebCORS(t *testing.T) {
	_, url := startWeb(t, &testService{}, rpc.CORS(rpc.CORSConfig{Origins: []string{"https://app.example"}, Headers: []string{"X-Mine"}, Expose: []string{"X-Yours"}, MaxAge: time.Hour}))
	res, _ := exchange(t, "OPTIONS", url+"UnaryCall", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if h := res.Header; res.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "X-Mine") || h.Get("Access-Control-Max-Age") != "3600" {
		t.Errorf("the question before: %d %v", res.StatusCode, res.Header)
	}
	res, _ = exchange(t, "POST", url+"UnaryCall", "{}", "Origin", "https://app.example", "Content-Type", "application/json")
	if h := res.Header; res.StatusCode != 200 || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "X-Yours") || h.Get("Vary") != "Origin" {
		t.Errorf("the call: %d %v", res.StatusCode, res.Header)
	}
	res, _ = exchange(t, "OPTIONS", url+"UnaryCall", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("another origin is allowed: %s", got)
	}
}

// Interceptors, panics and limits work as for calls of Serve.
func TestWebInterceptorsAndPanics(t *testing.T) {
	var seen []string
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if in.FillOauthScope {
			panic("oh")
		}
		return &pb.SimpleResponse{}, nil
	}}
	_, url := startWeb(t, svc, rpc.MaxRecvMsgSize(100), rpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			seen = append(seen, info.FullMethod)
			return h(ctx, req)
		}), rpc.PanicHandler(func(method string, v any, stack []byte) { seen = append(seen, method, v.(string)) }))
	res, text := exchange(t, "POST", url+"UnaryCall", `{"fillOauthScope":true}`, "Content-Type", "application/json")
	if res.StatusCode != 500 || !strings.Contains(text, "internal") || strings.Contains(text, "oh") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if got := strings.Join(seen, " "); got != "/grpc.testing.TestService/UnaryCall /grpc.testing.TestService/UnaryCall oh" {
		t.Errorf("seen %s", got)
	}
	res, text = exchange(t, "POST", url+"UnaryCall", `{"payload":{"body":"`+strings.Repeat("A", 400)+`"}}`, "Content-Type", "application/json")
	if res.StatusCode != 429 || !strings.Contains(text, "resource_exhausted") {
		t.Errorf("a message above the limit: %d %s", res.StatusCode, text)
	}
}

func TestWebTap(t *testing.T) {
	_, url := startWeb(t, &testService{}, rpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if len(info.Header.Get("x-banned")) > 0 {
			return nil, errors.New("no")
		}
		return ctx, nil
	}))
	if res, text := exchange(t, "POST", url+"UnaryCall", "{}", "Content-Type", "application/json", "X-Banned", "1"); res.StatusCode != 403 || !strings.Contains(text, "permission_denied") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if res, text := exchange(t, "POST", url+"UnaryCall", "{}", "Content-Type", "application/json"); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// A handler that waits for a client which sends nothing more ends at its deadline.
func TestWebDeadlineEndsAReadOfTheBody(t *testing.T) {
	ended := make(chan error, 1)
	svc := &testService{}
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.StreamInterceptor(
		func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			err := h(srv, ss)
			ended <- err
			return err
		}))
	pb.RegisterTestServiceServer(s, svc)
	h := httptest.NewServer(s)
	defer h.Close()
	body, hold := io.Pipe()
	defer hold.Close()
	r, err := http.NewRequestWithContext(ctxFor(t), "POST", h.URL+"/grpc.testing.TestService/StreamingInputCall", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/connect+json")
	r.Header.Set("Connect-Timeout-Ms", "30")
	res, err := http.DefaultClient.Do(r)
	if err == nil {
		defer res.Body.Close()
	}
	if got := <-ended; status.Code(got) != codes.DeadlineExceeded {
		t.Errorf("the handler's read ended with %v", got)
	}
}

// TestWebDeadlineBeforeTheRequest: a unary call whose request is incomplete at its deadline ends with DEADLINE_EXCEEDED, in every
// protocol, and not with the error of reading, which names the server's addresses.
func TestWebDeadlineBeforeTheRequest(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for major, client := range clients(t) {
		for contentType, want := range map[string]string{"application/json": "\"deadline_exceeded\"",
			"application/grpc-web": "grpc-status: 4\r\n", "application/grpc-web-text": "grpc-status: 4\r\n"} {
			body, hold := io.Pipe()
			r, err := http.NewRequestWithContext(ctxFor(t), "POST", "http://"+addr+"/grpc.testing.TestService/UnaryCall", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", contentType)
			r.Header.Set("Connect-Timeout-Ms", "30")
			r.Header.Set("Grpc-Timeout", "30m")
			res, err := client.Do(r)
			hold.Close()
			if err != nil {
				t.Errorf("HTTP/%d, %s: %v", major, contentType, err)
				continue
			}
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			if strings.HasSuffix(contentType, "-text") {
				got = webText(t, string(got))
			}
			if err != nil || !strings.Contains(string(got), want) {
				t.Errorf("HTTP/%d, %s: %q, %v", major, contentType, got, err)
			}
		}
	}
}

// Connect's GET needs a method whose descriptor declares it free of side effects; the test service has none,
// so the query is parsed for a method that is refused for that reason.
func TestWebGetOfAnUnknownMethod(t *testing.T) {
	_, base := startWeb(t, &testService{})
	res, text := exchange(t, "GET", base+"Nothing?encoding=json&message="+url.QueryEscape("{}"), "")
	if res.StatusCode != 404 || !strings.Contains(text, "unimplemented") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}
