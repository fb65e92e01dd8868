package rpc

import (
	"strings"
	"testing"

	"github.com/tarn-go/tarn/h2"
	"golang.org/x/net/http2/hpack"
)

// TestCheckUnannounced: a list that may be sent to a peer that names no limit has strings of at most 64 KiB and takes at most
// nine frames of 16 KiB, and one that just exceeds either is refused.
func TestCheckUnannounced(t *testing.T) {
	const longest, frames = 64 << 10, 9 * 16 << 10
	size := func(fs []h2.Field) (n int) {
		for _, f := range fs {
			n += len(f.Name) + len(f.Value) + 32
		}
		return n
	}
	check := func(fs []h2.Field) (sent bool) {
		sent = checkUnannounced(size(fs), 0, fs) == nil
		if !sent {
			return false
		}
		for _, f := range fs {
			for _, s := range []string{f.Name, f.Value} {
				if n := min(len(s), int(hpack.HuffmanEncodeLength(s))); n > longest {
					t.Errorf("a string of %d bytes is sent", n)
				}
			}
		}
		return true
	}
	for _, c := range []struct {
		name string
		fs   []h2.Field
		sent bool
	}{
		{"nothing", nil, true},
		{"a value of 64 KiB", []h2.Field{{Name: "x", Value: strings.Repeat("\\", longest)}}, true},
		{"one of a byte more", []h2.Field{{Name: "x", Value: strings.Repeat("\\", longest+1)}}, false},
		{"a name of a byte more", []h2.Field{{Name: strings.Repeat("|", longest+1), Value: "x"}}, false},
		{"a value of 64 KiB as encoded", []h2.Field{{Name: "x", Value: strings.Repeat("0", longest/5*8)}}, true},
		{"one of more", []h2.Field{{Name: "x", Value: strings.Repeat("0", longest/5*8+8)}}, false},
		{"a list of 144 KiB", []h2.Field{{Name: "x", Value: strings.Repeat("0", frames/2-33)}, {Name: "x", Value: strings.Repeat("0", frames/2-33)}}, true},
		{"one of a byte more", []h2.Field{{Name: "x", Value: strings.Repeat("0", frames/2-33)}, {Name: "x", Value: strings.Repeat("0", frames/2-32)}}, false},
	} {
		if sent := check(c.fs); sent != c.sent {
			t.Errorf("%s: sent %v", c.name, sent)
		}
	}
}
