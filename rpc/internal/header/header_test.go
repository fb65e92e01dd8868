package header

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
)

func TestTimeoutEncode(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0n"}, {0, "0n"}, {1, "1n"}, {99999999, "99999999n"}, {100000000, "100000u"},
		{100000001, "100001u"}, {time.Second, "1000000u"}, {100 * time.Second, "100000m"},
		{time.Hour, "3600000m"}, {30 * time.Hour, "108000S"}, {math.MaxInt64, "2562048H"},
	} {
		got := string(AppendTimeout(nil, c.d))
		if c.d == math.MaxInt64 {
			// Any unit is valid; the result must not be shorter than d.
			back, err := ParseTimeout(got)
			if err != nil || back != math.MaxInt64 && back < c.d {
				t.Errorf("AppendTimeout(max) = %q -> %v, %v", got, back, err)
			}
			continue
		}
		if got != c.want {
			t.Errorf("AppendTimeout(%v) = %q, want %q", c.d, got, c.want)
		}
	}
}

func TestTimeoutParse(t *testing.T) {
	for _, c := range []struct {
		s    string
		want time.Duration
		bad  bool
	}{
		{"0n", 0, false}, {"0S", 0, false}, {"1S", time.Second, false}, {"99999999H", math.MaxInt64, false},
		{"15m", 15 * time.Millisecond, false}, {"7u", 7 * time.Microsecond, false}, {"2M", 2 * time.Minute, false},
		{"", 0, true}, {"S", 0, true}, {"5", 0, true}, {"123456789n", 0, true}, {"-1S", 0, true}, {"1.5S", 0, true},
		{"1s", 0, true}, {"+1S", 0, true}, {" 1S", 0, true},
	} {
		got, err := ParseTimeout(c.s)
		if (err != nil) != c.bad || got != c.want || err != nil && !errors.Is(err, ErrTimeout) {
			t.Errorf("ParseTimeout(%q) = %v, %v", c.s, got, err)
		}
	}
}

func FuzzTimeout(f *testing.F) {
	for _, s := range []string{"0n", "1S", "99999999H", "123456789n", "", "x", "-1S", "00000001m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseTimeout(s)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("ParseTimeout(%q) = %v, negative", s, d)
		}
		back, err := ParseTimeout(string(AppendTimeout(nil, d)))
		if err != nil || back < d {
			t.Fatalf("%v came back as %v, %v", d, back, err)
		}
	})
}

func TestMessage(t *testing.T) {
	for _, c := range []struct{ plain, wire string }{
		{"", ""}, {"Hello", "Hello"}, {"\u0000", "%00"}, {"a%b", "a%25b"}, {"\t\ntest\r☺😈", "%09%0Atest%0D%E2%98%BA%F0%9F%98%88"},
		{"系统", "%E7%B3%BB%E7%BB%9F"}, {" ", "%20"}, {"ends in blanks:  ", "ends in blanks: %20"}, {"  % ", "%20 %25%20"},
	} {
		if got := EncodeMessage(c.plain); got != c.wire {
			t.Errorf("EncodeMessage(%q) = %q, want %q", c.plain, got, c.wire)
		}
		if got := DecodeMessage(c.wire); got != c.plain {
			t.Errorf("DecodeMessage(%q) = %q, want %q", c.wire, got, c.plain)
		}
	}
	for in, want := range map[string]string{"%": "%", "%1": "%1", "a%zzb": "a%zzb", "%e4": "\xe4", "100%25%": "100%%"} {
		if got := DecodeMessage(in); got != want {
			t.Errorf("DecodeMessage(%q) = %q, want %q", in, got, want)
		}
	}
	if got := EncodeMessage("\xff"); got != "%EF%BF%BD" {
		t.Errorf("bytes that are no UTF-8 went out as %q", got)
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{"", "plain", "%41", "%zz", "%", "☺", "\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		DecodeMessage(s)
		enc := EncodeMessage(s)
		for i := range len(enc) {
			if enc[i] < ' ' || enc[i] > '~' {
				t.Fatalf("%q encodes to %q, not printable", s, enc)
			}
		}
		if strings.Trim(enc, " ") != enc {
			t.Fatalf("%q encodes to %q, with blanks at an end", s, enc)
		}
		if got := DecodeMessage(enc); utf8.ValidString(s) && got != s {
			t.Fatalf("%q -> %q -> %q", s, enc, got)
		}
	})
}

func TestBinaryMetadata(t *testing.T) {
	got, err := AppendValues(nil, "k-bin", "AQI,AQI=, AQID ,")
	if err != nil || strings.Join(got, "|") != "\x01\x02|\x01\x02|\x01\x02\x03|" {
		t.Fatalf("got %q, %v", got, err)
	}
	if got, err := AppendValues([]string{"x"}, "k-bin", "!!"); !errors.Is(err, ErrMetadata) || len(got) != 1 {
		t.Fatalf("bad base64: %q, %v", got, err)
	}
	if got, _ := AppendValues(nil, "k", "a,b"); len(got) != 1 || got[0] != "a,b" {
		t.Fatalf("a text value was split: %q", got)
	}
	if v := EncodeValue("k-bin", "\x01\x02"); v != "AQI" {
		t.Fatalf("encoded as %q", v)
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add("k-bin", "AQI,AQI=")
	f.Add("k", "plain, text")
	f.Add("grpc-status", "0")
	f.Add("-bin", "====")
	f.Fuzz(func(t *testing.T, key, value string) {
		CheckKey(key)
		_ = Reserved(key)
		vals, err := AppendValues(nil, key, value)
		if err != nil {
			return
		}
		for _, v := range vals {
			if CheckValue(key, v) != nil {
				continue
			}
			back, err := AppendValues(nil, key, EncodeValue(key, v))
			if err != nil || len(back) != 1 || back[0] != v {
				t.Fatalf("%q: %q came back as %q, %v", key, v, back, err)
			}
		}
	})
}

func TestKeysAndValues(t *testing.T) {
	for k, ok := range map[string]bool{"a": true, "a-b_c.9": true, "": false, "A": false, "a b": false, "ä": false} {
		if (CheckKey(k) == nil) != ok {
			t.Errorf("CheckKey(%q) = %v", k, CheckKey(k))
		}
	}
	if CheckValue("k", "a\nb") == nil || CheckValue("k", "a b~") != nil || CheckValue("k-bin", "\x00") != nil {
		t.Error("CheckValue")
	}
	for _, k := range []string{":path", "te", "grpc-status", "grpc-timeout", "content-type", "connection"} {
		if !Reserved(k) {
			t.Errorf("%q is not reserved", k)
		}
	}
	for _, k := range []string{"content-length", "accept-encoding", "connect-timeout-ms"} {
		if !Reserved(k) || !ReceivedAsMetadata(k) || ReceivedByWeb(k) {
			t.Errorf("%q", k)
		}
	}
	for _, k := range []string{"grpc-previous-rpc-attempts", "grpc-trace-bin", "x", "connect-id"} {
		if Reserved(k) {
			t.Errorf("%q is reserved", k)
		}
	}
}

func TestContentType(t *testing.T) {
	for in, want := range map[string]string{
		"application/grpc": "", "application/grpc+proto": "proto", "application/grpc+JSON; q=1": "json",
		"application/grpc;charset=x": "", "APPLICATION/GRPC": "",
	} {
		if sub, ok := Subtype(in); !ok || sub != want {
			t.Errorf("Subtype(%q) = %q, %v", in, sub, ok)
		}
	}
	for _, in := range []string{"", "application/grpcweb", "text/html", "application/grp"} {
		if _, ok := Subtype(in); ok {
			t.Errorf("Subtype(%q) accepted", in)
		}
	}
	if s, m, ok := SplitMethod("/a.b.C/D"); !ok || s != "a.b.C" || m != "D" {
		t.Error("SplitMethod")
	}
	for _, p := range []string{"", "a/b", "/ab", "ab"} {
		if _, _, ok := SplitMethod(p); ok {
			t.Errorf("SplitMethod(%q) accepted", p)
		}
	}
}

func TestStatusTables(t *testing.T) {
	for h, c := range map[int]codes.Code{400: codes.Internal, 401: codes.Unauthenticated, 403: codes.PermissionDenied,
		404: codes.Unimplemented, 429: codes.Unavailable, 502: codes.Unavailable, 503: codes.Unavailable,
		504: codes.Unavailable, 200: codes.Unknown, 500: codes.Unknown} {
		if FromHTTP(h) != c {
			t.Errorf("FromHTTP(%d) = %v", h, FromHTTP(h))
		}
	}
	for r, c := range map[uint32]codes.Code{7: codes.Unavailable, 8: codes.Canceled, 11: codes.ResourceExhausted,
		12: codes.PermissionDenied, 0: codes.Internal, 1: codes.Internal, 3: codes.Internal, 13: codes.Internal, 99: codes.Internal} {
		if FromReset(r) != c {
			t.Errorf("FromReset(%d) = %v", r, FromReset(r))
		}
	}
	if c, ok := ParseStatus("99"); !ok || c != 99 {
		t.Error("unnamed code")
	}
	for _, s := range []string{"", "x", "-1", "99999999999"} {
		if _, ok := ParseStatus(s); ok {
			t.Errorf("ParseStatus(%q) accepted", s)
		}
	}
	if StatusText(16) != "16" || StatusText(77) != "77" {
		t.Error("StatusText")
	}
}
