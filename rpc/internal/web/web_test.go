package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestText: what a TextWriter writes in pieces of any length, with line ends between them, a TextReader reads, however it comes.
func TestText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		data := make([]byte, rnd.IntN(10_000))
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		var text bytes.Buffer
		for rest := data; len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			if k, err := (TextWriter{&text}).Write(rest[:n]); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
			if rnd.IntN(2) == 0 {
				text.WriteString("\r\n")
			}
		}
		var r io.Reader = &text
		switch rnd.IntN(3) {
		case 0:
			r = iotest.OneByteReader(r)
		case 1:
			r = iotest.DataErrReader(r)
		}
		if got, err := io.ReadAll(&TextReader{R: r}); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(data), err)
		}
	}
	for _, text := range []string{"A", "AAAAA", "AA=", "AA!A", "===="} {
		if _, err := io.ReadAll(&TextReader{R: bytes.NewReader([]byte(text))}); !errors.Is(err, message.ErrTruncated) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTrailer: the fields of a trailer come out of the frame as they went in, their names in lower case.
func TestTrailer(t *testing.T) {
	in := []h2.Field{{Name: "grpc-status", Value: "5"}, {Name: "grpc-message", Value: "a: b"}, {Name: "x", Value: ""}, {Name: "x", Value: "2"}}
	frame := TrailerFrame(in)
	if frame[0] != TrailerFlag || int(frame[4]) != len(frame)-message.PrefixLen {
		t.Errorf("the prefix is % x", frame[:message.PrefixLen])
	}
	if got, bad := ReadTrailer(frame[message.PrefixLen:]); bad != "" || !slices.Equal(got, in) {
		t.Errorf("%v, %q", got, bad)
	}
	if got, bad := ReadTrailer([]byte("X-Y:1\n\nz")); got != nil || bad != "z" {
		t.Errorf("%v, %q", got, bad)
	}
	if got, bad := ReadTrailer([]byte("X-Y :1\n")); bad != "" || !slices.Equal(got, []h2.Field{{Name: "x-y", Value: "1"}}) {
		t.Errorf("%v, %q", got, bad)
	}
}

// TestErrors: each code of gRPC has a name and an HTTP status in Connect, and is read from the JSON that has it; another becomes "unknown".
func TestErrors(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		var e Error
		if err := json.Unmarshal(ErrorJSON(status.New(code, "m")), &e); err != nil {
			t.Fatal(err)
		}
		if st := e.Status(codes.DataLoss); st.Code() != code || st.Message() != "m" || HTTPStatus(code) < 400 {
			t.Errorf("%v: %v, HTTP status %d", code, st, HTTPStatus(code))
		}
	}
	if Code(100) != "unknown" || HTTPStatus(100) != 500 || (&Error{Code: "new"}).Status(codes.Aborted).Code() != codes.Aborted {
		t.Error("a code that is not known")
	}
	if NewError(nil) != nil {
		t.Error("OK is an error")
	}
	var end End
	frame := EndStream(status.New(codes.NotFound, "m"), []h2.Field{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}})
	if err := json.Unmarshal(frame[message.PrefixLen:], &end); err != nil || frame[0] != EndStreamFlag || end.Error.Code != "not_found" || !slices.Equal(end.Metadata["a"], []string{"1", "2"}) {
		t.Errorf("%q: %v", frame, err)
	}
	if frame := EndStream(nil, nil); string(frame[message.PrefixLen:]) != "{}" {
		t.Errorf("%q", frame)
	}
}

// TestFields: lists of encodings and media types.
func TestFields(t *testing.T) {
	got := slices.Collect(Acceptable("gzip, br;q=0.5 ,zstd;q=0, lz4; q=0.000,,s2"))
	if !slices.Equal(got, []string{"gzip", "br", "s2"}) {
		t.Errorf("%q", got)
	}
	if !Accepts("", "gzip") || !Accepts("br, GZIP", "gzip") || Accepts("br", "gzip") {
		t.Error("Accepts")
	}
	if !BareMediaType("application/json") || BareMediaType("application/JSON") || BareMediaType("application/json; charset=utf-8") {
		t.Error("BareMediaType")
	}
}

// TestQuery: a call in a query, with and without base64.
func TestQuery(t *testing.T) {
	message := func(text string) (string, bool) {
		q, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		c, ok := ReadQuery(q)
		if !ok {
			return "", false
		}
		if c.Codec != "json" || c.Version != "1" || c.Compression != "gzip" {
			t.Errorf("%+v", c)
		}
		m, err := c.Message()
		return m, err == nil
	}
	const rest = "connect=v1&compression=gzip&encoding=json"
	encoded := base64.URLEncoding.EncodeToString([]byte("{ }"))
	for text, want := range map[string]string{"&message=%7B%20%7D": "{ }", "&base64=1&message=" + url.QueryEscape(encoded): "{ }", "&message=": ""} {
		if m, ok := message(rest + text); !ok || m != want {
			t.Errorf("%s: %q, %v", text, m, ok)
		}
	}
	for _, text := range []string{rest, "message=", rest + "&base64=1&message=%21"} {
		if _, ok := message(text); ok {
			t.Errorf("%s is a call", text)
		}
	}
}
