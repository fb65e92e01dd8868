package proto

import (
	"testing"
	"time"
	"unicode/utf8"
)

func TestUTF16(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "a": "a\x00", "é": "\xe9\x00", "日": "\xe5\x65", "😀": "\x3d\xd8\x00\xde", "\xff": "\xfd\xff",
	} {
		b := AppendUTF16(nil, s)
		if string(b) != want || UTF16Len(s) != len(b) {
			t.Errorf("%q: %x, %d bytes", s, b, UTF16Len(s))
		}
		if back := DecodeUTF16(b); utf8.ValidString(s) && back != s {
			t.Errorf("%q came back as %q", s, back)
		}
	}
	// lone surrogates, in front, in the middle and at the end, and an odd byte
	if got := DecodeUTF16([]byte("\x3d\xd8a\x00\x00\xdeb\x00\x3d\xd8x")); got != "\xed\xa0\xbda\xed\xb8\x80b\xed\xa0\xbd\xff" {
		t.Errorf("lone surrogates: %q", got)
	}
}

func FuzzUTF16(f *testing.F) {
	f.Add("plain", []byte("a\x00"))
	f.Add("😀\xff", []byte("\x3d\xd8\x00\xde\x01"))
	f.Fuzz(func(t *testing.T, s string, b []byte) {
		enc := AppendUTF16(nil, s)
		if len(enc) != UTF16Len(s) {
			t.Errorf("%q: %d bytes, said %d", s, len(enc), UTF16Len(s))
		}
		if utf8.ValidString(s) && DecodeUTF16(enc) != s {
			t.Errorf("%q does not come back", s)
		}
		// What decodes to valid UTF-8 is the text that it is encoded as: no two texts become one.
		if got := DecodeUTF16(b); utf8.ValidString(got) && string(AppendUTF16(nil, got)) != string(b) {
			t.Errorf("%x decodes to %q", b, got)
		}
	})
}

func TestFiletime(t *testing.T) {
	for _, tc := range []struct {
		t time.Time
		f Filetime
	}{
		{time.Time{}, 0},
		{time.Unix(0, 0).UTC(), 116444736000000000},
		{time.Date(1601, 1, 1, 0, 0, 0, 100, time.UTC), 1},
		{time.Date(2026, 7, 1, 12, 0, 0, 123456700, time.UTC), NewFiletime(time.Date(2026, 7, 1, 12, 0, 0, 123456799, time.UTC))},
	} {
		if got := NewFiletime(tc.t); got != tc.f {
			t.Errorf("%v: %d, want %d", tc.t, got, tc.f)
		}
		if got := tc.f.Time(); !got.Equal(tc.t) {
			t.Errorf("%d: %v, want %v", tc.f, got, tc.t)
		}
	}
	if NewFiletime(time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)) != 0 {
		t.Error("before 1601")
	}
	if f := NewFiletime(time.Unix(1<<60, 0)); f != 1<<63-1 {
		t.Errorf("the far future: %d", f)
	}
	_ = FiletimeKeep.Time() // out of range, but no panic
}
