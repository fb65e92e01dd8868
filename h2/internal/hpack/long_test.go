package hpack

import (
	"slices"
	"strings"
	"testing"
)

// TestSkipFieldAnywhere: at whichever byte a fragment ends within a literal, the fields after it are decoded, and the table has the right entries.
func TestSkipFieldAnywhere(t *testing.T) {
	n, v := strings.Repeat("n", 300), strings.Repeat("v", 300)
	for name, c := range map[string]struct {
		field []byte
		index int // bytes of the first byte and the index, which have always come
	}{
		"not entered":              {longField(0x00, n, v), 1},
		"sensitive":                {longField(0x10, n, v), 1},
		"entered":                  {longField(0x40, n, v), 1},
		"with an indexed name":     {longString([]byte{0x0f, 0x10}, v), 2},
		"the name of an entry":     {longString([]byte{0x0f, 0x2f}, v), 2},
		"entered, an indexed name": {longString([]byte{0x7e}, v), 1},
	} {
		t.Run(name, func(t *testing.T) {
			for cut := c.index; cut < len(c.field); cut++ {
				var d Decoder
				d.Init(limits(1<<20), "")
				var h Header
				if bad := d.Decode(enteredField("x-before", "1"), &h); bad != nil {
					t.Fatal(bad)
				}
				d.BeginLong(&h)
				rest, bad := d.DecodeLong(c.field[:cut])
				if bad != nil || len(rest) != cut {
					t.Fatalf("cut at %d: %d bytes are left, %+v", cut, len(rest), bad)
				}
				part, skip, bad := d.SkipField(rest)
				if bad != nil || skip > len(c.field)-cut {
					t.Fatalf("cut at %d: %d bytes to be skipped, %+v", cut, skip, bad)
				}
				part = append(append(part, c.field[cut+skip:]...), enteredField("x-after", "2")...)
				if bad := d.EndLong(part); bad == nil || bad.Conn || !bad.TooLong {
					t.Fatalf("cut at %d: %+v", cut, bad)
				}
				want := []entry{{"x-before", "1"}, {"x-after", "2"}}
				if c.field[0]&0x40 != 0 { // taken to be longer than the table
					want = want[1:]
				}
				if got, _ := d.table.last(len(d.table.entries)); !slices.Equal(got, want) {
					t.Fatalf("cut at %d: the table has %v, not %v", cut, got, want)
				}
				if bad := d.Decode([]byte{0xbe}, &h); bad != nil || len(h.Fields)+len(h.Extra) != 1 {
					t.Fatalf("cut at %d: then %+v, %+v", cut, h, bad)
				}
			}
		})
	}
}

// longField is a literal with a new name, not Huffman-coded; first says of which kind.
func longField(first byte, name, value string) []byte {
	return longString(longString([]byte{first}, name), value)
}

func longString(b []byte, s string) []byte {
	return append(appendInt(b, 0x00, 7, uint64(len(s))), s...)
}
