package hpack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/view"
	"golang.org/x/net/http2/hpack"
)

// decodeAll decodes a block with x/net's decoder.
func decodeAll(t testing.TB, d *hpack.Decoder, block []byte) []Field {
	t.Helper()
	hf, err := d.DecodeFull(block)
	if err != nil {
		t.Fatalf("%x: %v", block, err)
	}
	var out []Field
	for _, f := range hf {
		out = append(out, Field{f.Name, f.Value, f.Sensitive})
	}
	return out
}

// TestEncoder: whatever is encoded in whatever order, a conforming decoder gets
// the same fields, also when the table is resized meanwhile.
func TestEncoder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		var e Encoder
		e.Init()
		d := hpack.NewDecoder(TableSize, nil)
		var blocks []*Block
		for i := range 40 {
			blocks = append(blocks, NewBlock(Field{Name: ":method", Value: "POST"}, Field{Name: ":path", Value: fmt.Sprintf("/%d/%s", i, strings.Repeat("x", rnd.IntN(100)))},
				Field{Name: "authorization", Value: "secret", Sensitive: true}, Field{Name: "te", Value: "trailers"}))
		}
		for i := range 400 {
			if i%150 == 149 {
				n := rnd.IntN(6000)
				e.SetLimit(uint32(n))
				d.SetAllowedMaxDynamicTableSize(uint32(TableSize))
			}
			b := blocks[rnd.IntN(1+len(blocks)*(round+1)/20%len(blocks))]
			var extra []Field
			for range rnd.IntN(3) {
				extra = append(extra, Field{Name: fmt.Sprintf("x-%d", rnd.IntN(60)), Value: fmt.Sprint(rnd.IntN(1000)), Sensitive: rnd.IntN(9) == 0})
			}
			got := decodeAll(t, d, e.Encode(b, extra))
			want := append(append([]Field(nil), b.fields...), extra...)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if e.size > e.limit {
				t.Fatalf("%d in a table of %d", e.size, e.limit)
			}
		}
	}
}

// TestEncoderSettles: a block used again is a few bytes, and the same each time.
func TestEncoderSettles(t *testing.T) {
	var e Encoder
	e.Init()
	e.Encode(testRequest, nil)
	second := append([]byte(nil), e.Encode(testRequest, nil)...)
	third := e.Encode(testRequest, nil)
	if !bytes.Equal(second, third) || len(third) > 2*len(testRequest.fields) {
		t.Errorf("%x then %x", second, third)
	}
}

// TestEncoderLongValues: a value that could be longer than what peers take for one string is Huffman-coded where that is
// shorter, sensitive ones too, and a decoder gets it back.
func TestEncoderLongValues(t *testing.T) {
	const most = 64 << 10 // nghttp2's
	text, noise := strings.Repeat("value ", 12_000), strings.Repeat("\\", 70_000)
	for _, f := range []Field{{Name: "x", Value: text}, {Name: "x", Value: text, Sensitive: true}, {Name: "authorization", Value: text}, {Name: "x", Value: noise}} {
		var e Encoder
		e.Init()
		b := e.Encode(nil, []Field{f})
		if n := len(b); f.Value == text && n > most || n > len(f.Value)+16 {
			t.Errorf("%d bytes for a value of %d", n, len(f.Value))
		}
		fields, err := hpack.NewDecoder(TableSize, nil).DecodeFull(b)
		if err != nil || len(fields) != 1 || fields[0].Value != f.Value || fields[0].Sensitive != f.Sensitive {
			t.Errorf("%d fields, %v", len(fields), err)
		}
	}
}

// TestEncoderRepeats: a field that comes with every header list is sent by index from the third on, a value that
// differs from call to call stays a literal and does not fill the table, and short credentials never enter it. A
// conforming decoder gets the same fields.
func TestEncoderRepeats(t *testing.T) {
	var e Encoder
	e.Init()
	d := hpack.NewDecoder(TableSize, nil)
	params := strings.Repeat("table_name=", 10)
	size := 0
	for i := range 1000 {
		if i == 500 { // as when the connection was idle
			e.recall = nil
		}
		fields := []Field{
			{Name: "x-params", Value: params},
			{Name: "x-trace", Value: fmt.Sprintf("%032d", i)},
			{Name: "authorization", Value: "Basic short"},
			{Name: "cookie", Value: "a=b"},
			{Name: "x-two", Value: "first"}, {Name: "x-two", Value: fmt.Sprint("second", i%3)},
			{Name: "x-long", Value: strings.Repeat("long", maxRepeated)},
			{Name: "x-secret", Value: "never", Sensitive: true},
		}
		block := e.Encode(testRequest, fields)
		want := append(slices.Clone(testRequest.fields), fields...)
		for i := range want {
			if want[i].Name == "authorization" || want[i].Name == "cookie" {
				want[i].Sensitive = true // sent as never indexed, being short
			}
		}
		if got := decodeAll(t, d, block); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if i == 2 {
			size = e.size
		}
		if i > 1 && bytes.Contains(block, []byte("table_name")) && i != 500 {
			t.Fatalf("what all lists have is sent as a literal the %dth time", i+1)
		}
	}
	if e.size > size+200 {
		t.Errorf("the table has grown from %d to %d bytes", size, e.size)
	}
	for _, x := range e.table {
		if x.name == "authorization" || x.name == "cookie" || x.name == "x-secret" {
			t.Errorf("%s is in the table", x.name)
		}
	}
}

// TestEncoderSlowChanges: values that repeat for a while and then never again do not take the room of those that come
// with every list later, as the dates of responses would, each of which is sent for a second.
func TestEncoderSlowChanges(t *testing.T) {
	var e Encoder
	e.Init()
	d := hpack.NewDecoder(TableSize, nil)
	send := func(f Field) []byte {
		t.Helper()
		block := e.Encode(nil, []Field{f})
		if got := decodeAll(t, d, block); len(got) != 1 || got[0] != f {
			t.Fatalf("got %v, want %v", got, f)
		}
		return block
	}
	for i := range 100 {
		for range 2 {
			send(Field{Name: "date", Value: fmt.Sprintf("Sun, 22 Nov 2026 11:%02d:%02d GMT", i/60, i%60)})
		}
	}
	// Longer than what enters the table when its name is first seen.
	late := Field{Name: "x-late", Value: strings.Repeat("late", maxFirst/4+1)}
	send(late)
	send(late)
	if block := send(late); len(block) != 1 {
		t.Errorf("the third time it takes %d bytes, not an index: %x", len(block), block)
	}
}

// TestEncoderShortCredentials: short credentials, in a Block too, enter no table and are sent as never indexed, so that an
// intermediary does not enter them in the table of its own connection either (RFC 7541 section 7.1.3); long ones are not.
func TestEncoderShortCredentials(t *testing.T) {
	for _, name := range []string{"authorization", "proxy-authorization", "cookie", "set-cookie"} {
		for n, want := range map[int]bool{0: true, minCredential - 1: true, minCredential: false, maxRepeated + 1: false} {
			f := Field{Name: name, Value: strings.Repeat("a", n)}
			for in, list := range map[string]struct {
				block  *Block
				fields []Field
			}{"a Block": {NewBlock(f), nil}, "fields": {nil, []Field{f}}} {
				var e Encoder
				e.Init()
				d := hpack.NewDecoder(TableSize, nil)
				for range 3 { // what repeats may enter the table
					got := decodeAll(t, d, e.Encode(list.block, list.fields))
					if len(got) != 1 || got[0].Value != f.Value || got[0].Sensitive != want {
						t.Errorf("%s of %d bytes in %s: %+v", name, n, in, got)
					}
				}
				if want && len(e.table) != 0 {
					t.Errorf("%s of %d bytes in %s is in the table", name, n, in)
				}
			}
		}
	}
}

// TestEncoderKeepsNoStrings: the strings of fields may share memory that is used again after they were encoded.
func TestEncoderKeepsNoStrings(t *testing.T) {
	var e Encoder
	e.Init()
	d := hpack.NewDecoder(TableSize, nil)
	name, value := []byte("x-name"), []byte("first!")
	for _, now := range []string{"first!", "first!", "first!", "second", "second", "first!", "second", "first!"} {
		copy(value, now)
		got := decodeAll(t, d, e.Encode(nil, []Field{{Name: view.String(name), Value: view.String(value)}}))
		if len(got) != 1 || got[0].Name != "x-name" || got[0].Value != now {
			t.Fatalf("a field with the value %q was decoded as %v", now, got)
		}
		copy(value, "poison")
	}
}
