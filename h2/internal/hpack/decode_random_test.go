package hpack

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestDecoderAgainstPlainEntering: random blocks of every representation, a few of them again and again, against
// a plain decoder. Values are long enough to evict each other from the table.
func TestDecoderAgainstPlainEntering(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 { // connections
		plain := hpack.NewDecoder(TableSize, nil)
		var d Decoder
		d.Init(limits(64<<10), "")
		var kept [][]byte
		for range 300 {
			var block []byte
			if len(kept) > 0 && rnd.IntN(3) > 0 {
				block = kept[rnd.IntN(len(kept))]
			} else {
				block = append(block, 0x88)
				for range rnd.IntN(5) {
					name := [...]string{"server", "date", "n0", "n1"}[rnd.IntN(4)]
					value := strings.Repeat(fmt.Sprint(rnd.IntN(3)), 1+rnd.IntN(2)*900)
					switch entries := len(d.table.entries); {
					case rnd.IntN(4) == 0:
						block = append(block, literalField(name, value)...)
					case rnd.IntN(3) == 0 && entries > 0:
						block = append(block, appendInt(nil, 0x80, 7, uint64(staticFields+1+rnd.IntN(entries)))...)
					default:
						block = append(block, enteredField(name, value)...)
					}
				}
				if kept = append(kept, block); len(kept) > 6 {
					kept = kept[1:]
				}
			}
			want, err := plain.DecodeFull(block)
			var h Header
			bad := d.Decode(block, &h)
			if (bad != nil) != (err != nil) {
				t.Fatalf("%x: %+v, the other decoder: %v", block, bad, err)
			}
			if bad != nil {
				break // the connection has ended
			}
			got := append(h.Fields[:len(h.Fields):len(h.Fields)], h.Extra...)
			list := want[1:]
			if len(got) != len(list) {
				t.Fatalf("%x: got %v, want %v", block, got, list)
			}
			for i, f := range list {
				if got[i].Name != f.Name || got[i].Value != f.Value {
					t.Fatalf("%x: got %v, want %v", block, got, list)
				}
			}
		}
	}
}
