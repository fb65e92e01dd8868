package hpack

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// FuzzHeaders: two header blocks in a row, against x/net's decoder, and again after
// the connection was idle.
func FuzzHeaders(f *testing.F) {
	var hb bytes.Buffer
	enc := hpack.NewEncoder(&hb)
	enc.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"})
	enc.WriteField(hpack.HeaderField{Name: "x", Value: "y", Sensitive: true})
	f.Add(hb.Bytes(), []byte{0x82, 0xbe, 0x00, 1, 'a', 1, 'b'})
	f.Add([]byte{0x3f, 0xe1, 0x1f}, []byte{0x82, 0x86})
	f.Add([]byte{0x82, 0x00, 0x81, 0xff}, []byte{})
	f.Add([]byte{0x83, 0x04, 2, '/', 'a', 0x86, 0x00, 1, 'x', 1, '1'}, []byte{0x83, 0x04, 2, '/', 'a', 0x86, 0x00, 1, 'x', 1, '2'})
	f.Add(append(append([]byte{0x88}, enteredField("server", "nginx")...), enteredField("date", "1")...),
		append(append([]byte{0x88}, enteredField("server", "nginx")...), enteredField("date", "2")...))
	f.Add(append(append([]byte{0x88}, enteredField("x", "1")...), 0xbe), append(append([]byte{0x88, 0xbe}, enteredField("x", "1")...), 0xbe, 0xbf))
	f.Add([]byte{}, []byte{0x3f, 0x30, 0x3f, 0x30, 0x41, 0x00}) // two changes of the table's size
	f.Fuzz(func(t *testing.T, one, two []byte) {
		if len(one) > 1<<16 || len(two) > 1<<16 {
			return
		}
		var d Decoder
		d.Init(limits(1<<20), "")
		plain := hpack.NewDecoder(TableSize, nil)
		for i, block := range [][]byte{one, one, one, two, one, two, one, two} {
			if i == 6 { // the connection was idle
				packed := d.Pack()
				d = Decoder{}
				d.Init(limits(1<<20), packed)
			}
			var h Header
			bad := d.Decode(block, &h)
			want, err := decodeFull(plain, block)
			if bad != nil && bad.Conn {
				if err == nil {
					t.Fatalf("%x refused: %s", block, bad.Reason)
				}
				return
			}
			if err != nil {
				t.Fatalf("%x accepted in spite of %v", block, err)
			}
			if bad != nil {
				continue
			}
			regular := 0
			got := append(append([]Field(nil), h.Fields...), h.Extra...)
			for _, w := range want {
				if w.IsPseudo() {
					continue
				}
				if regular >= len(got) || got[regular].Name != w.Name || got[regular].Value != w.Value {
					t.Fatalf("%x: got %v, want %v", block, got, want)
				}
				regular++
			}
			if regular != len(got) {
				t.Fatalf("%x: got %v, want %v", block, got, want)
			}
		}
	})
}

// decodeFull is d.DecodeFull for a block that may begin with several changes of the table's size (RFC 7541 section 4.2), which x/net
// takes one at a time only.
func decodeFull(d *hpack.Decoder, block []byte) ([]hpack.HeaderField, error) {
	for len(block) > 0 && block[0]>>5 == 1 {
		n := 1
		if block[0]&0x1f == 0x1f {
			for n < len(block) && block[n]&0x80 != 0 {
				n++
			}
			n++
		}
		n = min(n, len(block))
		if _, err := d.DecodeFull(block[:n]); err != nil {
			return nil, err
		}
		block = block[n:]
	}
	return d.DecodeFull(block)
}
