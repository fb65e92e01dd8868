package hpack

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// traffic is what one side of a connection sends: fields that all lists have, and one that is another in each.
var traffic = []struct {
	name   string
	common *Block
	own    func(i int) []Field
}{
	{"gRPC request", testRequest, func(int) []Field { return nil }},
	{"gRPC request with deadline", testRequest, func(i int) []Field {
		return []Field{{Name: "grpc-timeout", Value: fmt.Sprintf("%du", 1_000_000+i)}}
	}},
	{"browser's request", NewBlock(
		Field{Name: ":method", Value: "GET"}, Field{Name: ":scheme", Value: "https"}, Field{Name: ":authority", Value: "www.example.com"},
		Field{Name: ":path", Value: "/articles/"}, Field{Name: "user-agent", Value: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
		Field{Name: "accept", Value: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		Field{Name: "accept-language", Value: "en-US,en;q=0.5"}, Field{Name: "accept-encoding", Value: "gzip, deflate, br, zstd"},
	), func(i int) []Field {
		return []Field{{Name: "referer", Value: fmt.Sprintf("https://www.example.com/articles/%d.html", i)}}
	}},
	{"response", NewBlock(
		Field{Name: ":status", Value: "200"}, Field{Name: "content-type", Value: "text/html; charset=utf-8"}, Field{Name: "server", Value: "example"},
		Field{Name: "date", Value: "Sun, 22 Nov 2026 01:02:03 GMT"}, Field{Name: "cache-control", Value: "private, max-age=0"},
	), func(i int) []Field { return []Field{{Name: "content-length", Value: fmt.Sprint(1000 + i)}} }},
}

// perConn is how many lists each connection of a benchmark carries.
const perConn = 1 << 10

// plainEncoder is x/net's, used as Encoder is.
type plainEncoder struct {
	buf bytes.Buffer
	enc *hpack.Encoder
}

func newPlainEncoder() *plainEncoder {
	e := new(plainEncoder)
	e.enc = hpack.NewEncoder(&e.buf)
	return e
}

func (e *plainEncoder) Encode(b *Block, fields []Field) []byte {
	e.buf.Reset()
	for _, list := range [2][]Field{b.Fields(), fields} {
		for _, f := range list {
			e.enc.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value, Sensitive: f.Sensitive})
		}
	}
	return e.buf.Bytes()
}

type encodes interface {
	Encode(*Block, []Field) []byte
}

var encoders = []struct {
	name string
	make func() encodes
}{
	{"tarn", func() encodes { e := new(Encoder); e.Init(); return e }},
	{"xnet", func() encodes { return newPlainEncoder() }},
}

// BenchmarkEncode encodes one header list; bytes/block is what it takes.
func BenchmarkEncode(b *testing.B) {
	for _, x := range traffic {
		var own [perConn][]Field
		for i := range own {
			own[i] = x.own(i)
		}
		for _, by := range encoders {
			b.Run(x.name+"/by "+by.name, func(b *testing.B) {
				b.ReportAllocs()
				var e encodes
				bytes := 0
				for i := 0; b.Loop(); i++ {
					if i%perConn == 0 {
						e = by.make()
					}
					bytes += len(e.Encode(x.common, own[i%perConn]))
				}
				b.ReportMetric(float64(bytes)/float64(b.N), "bytes/block")
			})
		}
	}
}

// BenchmarkDecode decodes one block of either encoder. Only this package's decoder checks the list, too.
func BenchmarkDecode(b *testing.B) {
	for _, x := range traffic {
		for _, of := range encoders {
			var blocks [perConn][]byte
			e := of.make()
			for i := range blocks {
				blocks[i] = bytes.Clone(e.Encode(x.common, x.own(i)))
			}
			b.Run(x.name+"/of "+of.name+"/by tarn", func(b *testing.B) {
				b.ReportAllocs()
				var d *Decoder
				var h Header
				for i := 0; b.Loop(); i++ {
					if i%perConn == 0 {
						d = new(Decoder)
						d.Init(limits(64<<10), "")
					}
					if bad := d.Decode(blocks[i%perConn], &h); bad != nil {
						b.Fatal(bad)
					}
				}
			})
			b.Run(x.name+"/of "+of.name+"/by xnet", func(b *testing.B) {
				b.ReportAllocs()
				var d *hpack.Decoder
				for i := 0; b.Loop(); i++ {
					if i%perConn == 0 {
						d = hpack.NewDecoder(TableSize, func(hpack.HeaderField) {})
					}
					if _, err := d.Write(blocks[i%perConn]); err != nil {
						b.Fatal(err)
					}
					if err := d.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
