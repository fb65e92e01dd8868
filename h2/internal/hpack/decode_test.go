package hpack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestDecoderRemembers: with blocks of x/net's encoder and of this package's, the
// remembered result equals the decoded one, and what differs from call to call
// comes as Extra.
func TestDecoderRemembers(t *testing.T) {
	var e Encoder
	e.Init()
	var d Decoder
	d.Init(limits(64<<10), "")
	var h Header
	var memo *any
	for i := range 10 {
		timeout := fmt.Sprintf("%dm", i)
		block := e.Encode(testRequest, []Field{{Name: "grpc-timeout", Value: timeout}})
		if bad := d.Decode(block, &h); bad != nil {
			t.Fatal(bad)
		}
		if h.Method != "POST" || h.Path != "/test.Service/Method" || h.Scheme != "http" || h.Authority != "test" {
			t.Fatalf("%+v", h)
		}
		if v, _ := h.Get("grpc-timeout"); v != timeout {
			t.Fatalf("grpc-timeout %q at %d", v, i)
		}
		if v, _ := h.Get("te"); v != "trailers" {
			t.Fatalf("te %q at %d", v, i)
		}
		switch {
		case i == 1:
			if memo = h.Memo; memo == nil || len(h.Extra) != 1 {
				t.Fatalf("nothing remembered: %+v", h)
			}
			*memo = "kept"
		case i > 1:
			if h.Memo != memo || *h.Memo != "kept" {
				t.Fatal("the list came with another Memo than before")
			}
		}
	}
	// A change of the table moves the indices; the header list stays the same.
	if bad := d.Decode(e.Encode(NewBlock(Field{Name: ":status", Value: "200"}, Field{Name: "new", Value: "field"}), nil), &h); bad != nil {
		t.Fatal(bad)
	}
	if bad := d.Decode(e.Encode(testRequest, nil), &h); bad != nil || h.Path != "/test.Service/Method" || h.Memo != memo {
		t.Errorf("%v %+v", bad, h)
	}
}

// TestDecoderRemembersFraming: what is remembered of content-length and host belongs to the block that was decoded last, and does not have
// fields behind what the blocks have in common.
func TestDecoderRemembersFraming(t *testing.T) {
	var e Encoder
	e.Init()
	var d Decoder
	d.Init(limits(64<<10), "")
	twice := NewBlock(Field{Name: ":method", Value: "POST"}, Field{Name: ":scheme", Value: "http"}, Field{Name: ":path", Value: "/"},
		Field{Name: "content-length", Value: "1"}, Field{Name: "host", Value: "a"}, Field{Name: "content-length", Value: "2"})
	for i := range 4 {
		for _, c := range []struct {
			block  *Block
			fields []Field
			want   Framing // of Header.Fields and Header.Extra
		}{
			{twice, nil, Framing{"1", 2, true, 1}},
			{testRequest, nil, Framing{}},
			{testRequest, []Field{{Name: "content-length", Value: fmt.Sprint(i)}}, Framing{fmt.Sprint(i), 1, false, 0}},
			{twice, []Field{{Name: "host", Value: fmt.Sprint(i)}}, Framing{"1", 2, true, 2}},
		} {
			var h Header
			if bad := d.Decode(e.Encode(c.block, c.fields), &h); bad != nil {
				t.Fatal(bad)
			}
			got := d.framing
			if got.add(h.Extra); got != c.want {
				t.Errorf("round %d: %+v, not %+v, of %v and %v", i, got, c.want, h.Fields, h.Extra)
			}
		}
	}
}

// TestDecoderWholeBlocks: a block that comes again is handed out without being parsed, unless the table has changed since, even if
// its bytes are the same.
func TestDecoderWholeBlocks(t *testing.T) {
	var d Decoder
	d.Init(limits(64<<10), "")
	var h Header
	decode := func(block []byte) {
		t.Helper()
		if bad := d.Decode(block, &h); bad != nil {
			t.Fatal(bad)
		}
	}
	decode(append([]byte{0x88}, enteredField("x", "first")...))
	indexed := []byte{0x88, 0x80 | staticFields + 1} // :status 200, and the newest entry
	for i := range 4 {
		decode(indexed)
		if v, _ := h.Get("x"); v != "first" || h.Status != 200 || len(h.Extra) != 0 {
			t.Fatalf("the %dth time: %+v", i+1, h)
		}
	}
	if d.sameAsBefore(indexed) == nil {
		t.Error("the block is parsed each time")
	}
	memo := h.Memo
	decode(append([]byte{0x88}, enteredField("x", "second")...))
	if d.sameAsBefore(indexed) != nil {
		t.Error("the block is not parsed although the newest entry is another one")
	}
	for range 4 {
		decode(indexed)
		if v, _ := h.Get("x"); v != "second" || h.Memo == memo {
			t.Fatalf("%+v", h)
		}
	}
	decode(appendInt(nil, 0x20, 5, 0)) // empties the table
	if bad := d.Decode(indexed, &h); bad == nil || !bad.Conn {
		t.Errorf("an index of an empty table: %+v", bad)
	}
}

// TestBlocksUsedInTurns: two runs, and two blocks, that are used in turns keep leading places, also when others came first.
func TestBlocksUsedInTurns(t *testing.T) {
	const kinds = leadingBlocks + 4
	for first := range kinds - 1 {
		var d Decoder
		d.Init(limits(64<<10), "")
		var e Encoder
		e.Init()
		var lists [kinds][]byte
		var blocks [kinds]*Block
		var h Header
		use := func(i int) {
			if bad := d.Decode(lists[i], &h); bad != nil {
				t.Fatal(bad)
			}
			e.Encode(blocks[i], nil)
		}
		for i := range kinds {
			lists[i] = []byte{0x80 | byte(8+i%7), 0x80 | byte(15+i)} // :status, and a field of the static table
			blocks[i] = NewBlock(Field{Name: ":status", Value: "200"}, Field{Name: "x", Value: string(rune('a' + i))})
			use(i)
			use(i)
		}
		pair := [2]int{first, kinds - 1}
		for range 2 {
			use(pair[0])
			use(pair[1])
		}
		known, encoded := d.known, slices.Clone(e.blocks)
		for _, i := range pair {
			if d.sameAsBefore(lists[i]) == nil {
				t.Errorf("the list %d of %v is parsed each time", i, pair)
			}
			use(i)
		}
		if known != d.known || !slices.EqualFunc(encoded, e.blocks, func(a, b blockBytes) bool { return a.block == b.block }) {
			t.Errorf("%v change places", pair)
		}
	}
}

// decodeLike decodes a block of a request's header list by d, and requires the fields that x/net's decoder finds in it.
func decodeLike(t *testing.T, d *Decoder, plain *hpack.Decoder, block []byte) (h Header) {
	t.Helper()
	want := decodeAll(t, plain, block)
	if bad := d.Decode(block, &h); bad != nil {
		t.Fatal(bad)
	}
	got := append([]Field{{Name: ":method", Value: h.Method}, {Name: ":scheme", Value: h.Scheme},
		{Name: ":path", Value: h.Path}, {Name: ":authority", Value: h.Authority}}, h.Fields...)
	if got = append(got, h.Extra...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	return h
}

// TestDecoderRemembersBehindOtherEncoders: x/net's encoder, like grpc-go's, enters what
// differs from call to call in the table. The lists are the same until their entries
// have been pushed out of it, and then again.
func TestDecoderRemembersBehindOtherEncoders(t *testing.T) {
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	plain := hpack.NewDecoder(TableSize, nil)
	var d Decoder
	d.Init(limits(64<<10), "")
	const calls = 1000
	remembered := 0
	for i := range calls {
		buf.Reset()
		for _, f := range testRequest.fields {
			enc.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value})
		}
		enc.WriteField(hpack.HeaderField{Name: "grpc-timeout", Value: fmt.Sprintf("%du", 1000000+i)})
		h := decodeLike(t, &d, plain, buf.Bytes())
		if h.Memo != nil {
			if *h.Memo != nil {
				remembered++
			}
			*h.Memo = true
			if len(h.Extra) != 1 {
				t.Fatalf("%v behind what is remembered", h.Extra)
			}
		}
	}
	if remembered < calls*9/10 {
		t.Errorf("%d of %d calls were remembered", remembered, calls)
	}
}

// literalField is a field as a literal that is not entered in the table.
func literalField(name, value string) []byte {
	i := staticName[name]
	b := appendInt(nil, 0, 4, uint64(i))
	if i == 0 {
		b = appendString(b, name)
	}
	return appendString(b, value)
}

// enteredField is a field as a literal that is entered in the table.
func enteredField(name, value string) []byte {
	i := staticName[name]
	b := appendInt(nil, 0x40, 6, uint64(i))
	if i == 0 {
		b = appendString(b, name)
	}
	return appendString(b, value)
}

// TestDecoderRemembersEnteredLiterals: nginx keeps no table and sends the fields of each response as literals that
// enter the table. They are remembered nevertheless, and the table equals another decoder's, in which they
// evict each other.
func TestDecoderRemembersEnteredLiterals(t *testing.T) {
	plain := hpack.NewDecoder(TableSize, nil)
	var d Decoder
	d.Init(limits(64<<10), "")
	remembered := 0
	const responses = 400
	for i := range responses {
		fields := []Field{
			{Name: "server", Value: "nginx/1.22.1"}, {Name: "date", Value: fmt.Sprint("Sun, 22 Nov 2026 01:02:", i/100)},
			{Name: "content-type", Value: "text/plain"}, {Name: "content-length", Value: "100"},
		}
		block := []byte{0x88}
		for _, f := range fields {
			block = append(block, enteredField(f.Name, f.Value)...)
		}
		if i%7 == 0 { // and a field by the index that it has just been given
			block = append(block, 0x80|staticFields+2)
		}
		want := decodeAll(t, plain, block)
		var h Header
		if bad := d.Decode(block, &h); bad != nil {
			t.Fatal(bad)
		}
		got := append([]Field{{Name: ":status", Value: fmt.Sprint(h.Status)}}, append(h.Fields[:len(h.Fields):len(h.Fields)], h.Extra...)...)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("response %d: got %v, want %v", i, got, want)
		}
		if h.Memo != nil && len(h.Fields) == 4 {
			remembered++
		}
	}
	if remembered < responses*9/10 {
		t.Errorf("%d of %d responses were remembered", remembered, responses)
	}
	// The whole table is the other decoder's.
	for i := range len(d.table.entries) {
		block := append([]byte{0x88}, appendInt(nil, 0x80, 7, uint64(staticFields+1+i))...)
		want := decodeAll(t, plain, block)
		var h Header
		if bad := d.Decode(block, &h); bad != nil {
			t.Fatal(bad)
		}
		if got := append(h.Fields[:len(h.Fields):len(h.Fields)], h.Extra...); fmt.Sprint(got) != fmt.Sprint(want[1:]) {
			t.Fatalf("entry %d: got %v, want %v", i, got, want[1:])
		}
	}
	if _, err := plain.DecodeFull(appendInt(nil, 0x80, 7, uint64(staticFields+1+len(d.table.entries)))); err == nil {
		t.Error("the other decoder has more entries")
	}
	if n := testing.AllocsPerRun(100, func() {
		for _, e := range [3]string{"a", "b", "c"} {
			d.table.add(entry{e, "value"})
		}
	}); n > 0 {
		t.Errorf("%v allocations to enter fields in a table that is full", n)
	}
}

// TestDecoderRemembersLiterals: nghttp2 sends :path as a literal each time. What calls
// have in common is remembered nevertheless, also when calls of several methods
// alternate, and what differs comes as Extra, also where a fixed field follows it.
func TestDecoderRemembersLiterals(t *testing.T) {
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	var d Decoder
	d.Init(limits(64<<10), "")
	memos := make(map[string]*any)
	for i := range 40 {
		path := fmt.Sprint("/test.Service/Method", i%3)
		buf.Reset()
		enc.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"})
		enc.WriteField(hpack.HeaderField{Name: ":scheme", Value: "http"})
		buf.Write(literalField(":path", path))
		enc.WriteField(hpack.HeaderField{Name: ":authority", Value: "test"})
		enc.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
		buf.Write(literalField("te", "trailers"))
		buf.Write(literalField("content-length", fmt.Sprint(i)))
		enc.WriteField(hpack.HeaderField{Name: "authorization", Value: "secret", Sensitive: true})
		var h Header
		if bad := d.Decode(buf.Bytes(), &h); bad != nil {
			t.Fatal(bad)
		}
		if h.Path != path || len(h.Fields)+len(h.Extra) != 4 {
			t.Fatalf("%+v", h)
		}
		if i < 9 { // until the table no longer changes and each method has come twice since
			continue
		}
		want := []Field{{Name: "content-length", Value: fmt.Sprint(i)}, {Name: "authorization", Value: "secret", Sensitive: true}}
		if h.Memo == nil || fmt.Sprint(h.Extra) != fmt.Sprint(want) {
			t.Fatalf("call %d: %+v", i, h)
		}
		if m := memos[path]; m != nil && m != h.Memo {
			t.Fatalf("call %d: the list came with another Memo than before", i)
		}
		memos[path] = h.Memo
	}
}

// TestDecoderRemembersAll: fields that the peer enters in the table with the first block
// are among what is remembered afterwards.
func TestDecoderRemembersAll(t *testing.T) {
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	var d Decoder
	d.Init(limits(64<<10), "")
	for i := range 6 {
		for _, list := range [][]hpack.HeaderField{
			{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/grpc"}, {Name: "server", Value: "test"}},
			{{Name: "grpc-status", Value: "0"}, {Name: "grpc-message", Value: "ok"}},
		} {
			buf.Reset()
			for _, f := range list {
				enc.WriteField(f)
			}
			var h Header
			if bad := d.Decode(buf.Bytes(), &h); bad != nil {
				t.Fatal(bad)
			}
			if i >= 2 && (h.Memo == nil || len(h.Extra) > 0 || len(h.Fields) != 2) {
				t.Fatalf("block %d: %+v", i, h)
			}
		}
	}
}

// TestDecoderKeepsNoSecrets: what is sent as never indexed is not remembered, though it
// is the same in each call.
func TestDecoderKeepsNoSecrets(t *testing.T) {
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	var d Decoder
	d.Init(limits(64<<10), "")
	for range 5 {
		buf.Reset()
		enc.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"})
		enc.WriteField(hpack.HeaderField{Name: "authorization", Value: "secret", Sensitive: true})
		var h Header
		if bad := d.Decode(buf.Bytes(), &h); bad != nil {
			t.Fatal(bad)
		}
	}
	if d.nknow == 0 {
		t.Fatal("nothing is remembered")
	}
	for _, k := range d.known[:d.nknow] {
		if len(k.h.Fields) > 0 {
			t.Errorf("remembered: %v", k.h.Fields)
		}
	}
}

// TestDecoderAgainstPlain: random blocks, twice each, against a plain decoder.
func TestDecoderAgainstPlain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	plain := hpack.NewDecoder(TableSize, nil)
	var d Decoder
	d.Init(limits(64<<10), "")
	for range 2000 {
		buf.Reset()
		enc.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"})
		enc.WriteField(hpack.HeaderField{Name: ":path", Value: fmt.Sprint("/", rnd.IntN(4))})
		for range rnd.IntN(4) {
			f := hpack.HeaderField{Name: fmt.Sprint("n", rnd.IntN(3)), Value: fmt.Sprint(rnd.IntN(4)), Sensitive: rnd.IntN(2) == 0}
			if rnd.IntN(2) == 0 {
				buf.Write(literalField(f.Name, f.Value))
				continue
			}
			enc.WriteField(f)
		}
		want := decodeAll(t, plain, buf.Bytes())
		var h Header
		if bad := d.Decode(append([]byte(nil), buf.Bytes()...), &h); bad != nil {
			t.Fatal(bad)
		}
		got := append([]Field{{Name: ":method", Value: h.Method}, {Name: ":path", Value: h.Path}}, h.Fields...)
		got = append(got, h.Extra...)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestDecoderTableSizeUpdates: a block may begin with any number of changes of the table's size, of which two are usual, the smallest
// size and the last (RFC 7541 section 4.2); behind a field there is none.
func TestDecoderTableSizeUpdates(t *testing.T) {
	resize := func(n uint64) []byte { return appendInt(nil, 0x20, 5, n) }
	for _, x := range []struct {
		name string
		then []byte
		ok   bool
	}{
		{"one", append(resize(100), 0x80|62), true},
		{"two", append(append(resize(100), resize(TableSize)...), 0x80|62), true},
		{"two, the first to nothing", append(append(resize(0), resize(TableSize)...), 0x82), true},
		{"above what was offered", append(resize(TableSize+1), 0x80|62), false},
		{"behind a field", append([]byte{0x80 | 62}, resize(100)...), false},
		{"before and behind a field", append(append(resize(100), 0x80|62), resize(TableSize)...), false},
	} {
		var d Decoder
		var h Header
		d.Init(limits(64<<10), "")
		if bad := d.Decode(enteredField("n", "v"), &h); bad != nil {
			t.Fatal(bad)
		}
		if bad := d.Decode(x.then, &h); (bad == nil || !bad.Conn) != x.ok {
			t.Errorf("%s: %v", x.name, bad)
		}
	}
}

func TestScanInt(t *testing.T) {
	for _, v := range []uint64{0, 1, 126, 127, 128, 1337, 1 << 20, 1<<31 - 1} {
		b := appendInt(nil, 0x80, 7, v)
		if got, end := scanInt(b, 0, 7); got != v || end != len(b) {
			t.Errorf("%d became %d, %d bytes of %d", v, got, end, len(b))
		}
		if len(b) == 1 {
			continue
		}
		if _, end := scanInt(b[:len(b)-1], 0, 7); end >= 0 {
			t.Errorf("the truncated encoding of %d was accepted", v)
		}
	}
	if _, end := scanInt([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 0, 7); end >= 0 {
		t.Error("an integer without an end was accepted")
	}
}
