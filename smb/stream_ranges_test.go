package smb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// atOffsets is memory that is written to at offsets.
type atOffsets []byte

func (b atOffsets) WriteAt(p []byte, off int64) (int, error) { return copy(b[off:], p), nil }

// TestRanges moves the data of sparse files alone: the copies have the same bytes and the same holes.
func TestRanges(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		for name, l := range layouts() {
			if l.slow(t) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				want := sparseFile(t, share, "from", l.size, l.data)
				from, err := share.Open("from")
				must(t, err)
				defer from.Close()
				bytesOfData := int64(0)
				for _, r := range l.data {
					bytesOfData += r.Length
				}
				got := make(atOffsets, l.size)
				if n, err := from.WriteRangesTo(got, l.data); n != bytesOfData || err != nil || !bytes.Equal(got, want) {
					t.Errorf("WriteRangesTo: %d of %d bytes, %v; equal: %v", n, bytesOfData, err, bytes.Equal(got, want))
				}
				to, err := share.Create("to")
				must(t, err)
				defer to.Close()
				must(t, to.SetSparse())
				if n, err := to.ReadRangesFrom(bytes.NewReader(want), l.data); n != bytesOfData || err != nil {
					t.Errorf("ReadRangesFrom: %d of %d bytes, %v", n, bytesOfData, err)
				}
				must(t, to.Truncate(l.size))
				if !bytes.Equal(onDisk(t, srv, "to"), want) {
					t.Error("ReadRangesFrom: other bytes")
				}
				if got := rangesOf(t, share, "to"); !slices.Equal(got, l.data) {
					t.Errorf("ReadRangesFrom: %.200v, want %.200v", got, l.data)
				}
			})
		}
	})
}

// TestRangesEnd moves ranges beyond the end of the source, to and from writers and readers that fail, and in orders that are refused.
func TestRangesEnd(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		want := random(3 << 20)
		must(t, share.WriteFile("file", want, 0o666))
		f, err := share.OpenFile("file", os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		beyond := []smb.Range{{Offset: 1 << 20, Length: 0}, {Offset: 1 << 20, Length: 5}, {Offset: 2 << 20, Length: 4 << 20}}
		got := make(atOffsets, 8<<20)
		if n, err := f.WriteRangesTo(got, beyond); n != 5+1<<20 || err != io.ErrUnexpectedEOF || !bytes.Equal(got[2<<20:3<<20], want[2<<20:]) {
			t.Errorf("WriteRangesTo: %d, %v", n, err)
		}
		if n, err := f.ReadRangesFrom(bytes.NewReader(want), beyond); n != 5+1<<20 || err != io.ErrUnexpectedEOF {
			t.Errorf("ReadRangesFrom: %d, %v", n, err)
		}
		if at, err := f.Seek(0, io.SeekCurrent); at != 3<<20 || err != nil {
			t.Errorf("the position is %d, %v", at, err)
		}
		some := []smb.Range{{Offset: 100, Length: 2 << 20}}
		failed := errors.New("failed")
		if n, err := f.WriteRangesTo(failing{failed, 1000}, some); n != 1000 || err != failed {
			t.Errorf("WriteRangesTo a writer that fails: %d, %v", n, err)
		}
		if n, err := f.ReadRangesFrom(failing{failed, 1000}, some); n != 1000 || err != failed {
			t.Errorf("ReadRangesFrom a reader that fails: %d, %v", n, err)
		}
		if n, err := f.ReadRangesFrom(bytes.NewReader(want), nil); n != 0 || err != nil {
			t.Errorf("ReadRangesFrom no ranges: %d, %v", n, err)
		}
		for _, refused := range [][]smb.Range{
			{{Offset: -1, Length: 1}}, {{Offset: 1, Length: -1}}, {{Offset: 2, Length: math.MaxInt64 - 1}},
			{{Offset: 5, Length: 1}, {Offset: 0, Length: 1}}, {{Offset: 0, Length: 5}, {Offset: 4, Length: 1}},
		} {
			if n, err := f.WriteRangesTo(got, refused); n != 0 || err == nil {
				t.Errorf("WriteRangesTo %v: %d, %v", refused, n, err)
			}
			if n, err := f.ReadRangesFrom(bytes.NewReader(want), refused); n != 0 || err == nil {
				t.Errorf("ReadRangesFrom %v: %d, %v", refused, n, err)
			}
		}
		appending, err := share.OpenFile("file", os.O_RDWR|os.O_APPEND, 0)
		must(t, err)
		defer appending.Close()
		if n, err := appending.ReadRangesFrom(bytes.NewReader(want), some); n != 0 || err == nil {
			t.Errorf("ReadRangesFrom, appending: %d, %v", n, err)
		}
	})
}

// failing moves n bytes at most and then fails.
type failing struct {
	err error
	n   int
}

func (f failing) WriteAt([]byte, int64) (int, error) { return f.n, f.err }

func (f failing) ReadAt(p []byte, _ int64) (int, error) {
	clear(p[:f.n])
	return f.n, f.err
}

// TestRangesInFlight writes and reads ranges with gaps, on a server that does not answer. Several requests are in flight; those that
// write end within Limits.Pipeline of the first, which an interrupted copy relies on.
func TestRangesInFlight(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	const bound, step, count = 4 << 20, 1 << 20, 40
	var ranges []smb.Range
	for i := range int64(count) {
		ranges = append(ranges, smb.Range{Offset: i * step, Length: 4096})
	}
	content := make(atOffsets, count*step)
	for _, kind := range kinds() {
		for _, c := range []struct {
			command proto.Command
			move    func(f *smb.File) error
			want    int
		}{
			{proto.CommandWrite, func(f *smb.File) error { _, err := f.ReadRangesFrom(bytes.NewReader(content), ranges); return err }, bound / step},
			{proto.CommandRead, func(f *smb.File) error { _, err := f.WriteRangesTo(content, ranges); return err }, count},
		} {
			t.Run(kind+"/"+c.command.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := protections()[kind]
					var mu sync.Mutex
					sent := 0
					s.Hook = func(_ *script.Conn, m *script.Message) bool {
						mu.Lock()
						defer mu.Unlock()
						if m.Command == c.command {
							sent++
						}
						return m.Command == c.command
					}
					f, err := scripted(t, s, smb.Dialer{Limits: smb.Limits{Pipeline: bound}})
					must(t, err)
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- c.move(f.WithContext(ctx)) }()
					synctest.Wait()
					mu.Lock()
					if sent != c.want {
						t.Errorf("%d requests in flight, want %d", sent, c.want)
					}
					mu.Unlock()
					cancel()
					if err := <-done; !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestPanickingSource has a reader or writer of a transfer panic in the middle, or return a number that is out of range: the panic
// reaches the caller, no buffer is lost, and the file can be used.
func TestPanickingSource(t *testing.T) {
	const chunk, size = 512 << 10, 8 << 20
	ranges := []smb.Range{{Offset: 0, Length: size}}
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		for name, transfer := range map[string]func(f *smb.File, broken faulty) (int64, error){
			"ReadFrom":       func(f *smb.File, broken faulty) (int64, error) { return f.ReadFrom(&broken) },
			"ReadRangesFrom": func(f *smb.File, broken faulty) (int64, error) { return f.ReadRangesFrom(&broken, ranges) },
			"WriteTo":        func(f *smb.File, broken faulty) (int64, error) { return f.WriteTo(&broken) },
			"WriteRangesTo":  func(f *smb.File, broken faulty) (int64, error) { return f.WriteRangesTo(&broken, ranges) },
		} {
			for _, number := range []int{0, chunk + 1, -1} {
				t.Run(fmt.Sprintf("%s/%d", name, number), func(t *testing.T) {
					share := mount(t, srv, smb.Dialer{}) // with a pool of its own
					want := random(size)
					must(t, share.WriteFile("f", want, 0o666))
					f, err := share.OpenFile("f", os.O_RDWR, 0)
					must(t, err)
					defer f.Close()
					func() {
						defer func() {
							if recover() == nil && strings.HasPrefix(name, "Read") {
								t.Error("it did not panic")
							}
						}()
						transfer(f, faulty{calls: 3, number: number})
					}()
					_, err = f.WriteAt(want, 0)
					must(t, err)
					got := make([]byte, size)
					if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%v, equal: %v", err, bytes.Equal(got, want))
					}
				})
			}
		}
	})
}

// faulty is a reader and writer whose call after calls others panics, or returns number unless that is 0.
type faulty struct{ calls, number int }

func (f *faulty) Read(p []byte) (int, error) {
	if f.calls--; f.calls >= 0 {
		return len(p), nil
	}
	if f.number == 0 {
		panic("source")
	}
	return f.number, nil
}

func (f *faulty) Write(p []byte) (int, error)            { return f.Read(p) }
func (f *faulty) ReadAt(p []byte, _ int64) (int, error)  { return f.Read(p) }
func (f *faulty) WriteAt(p []byte, _ int64) (int, error) { return f.Read(p) }
