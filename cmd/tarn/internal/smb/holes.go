package smb

import (
	"context"
	"io"
	"io/fs"
	"math"
	"os"

	client "github.com/tarn-go/tarn/smb"
)

// attrSparse is FILE_ATTRIBUTE_SPARSE_FILE (MS-FSCC 2.6).
const attrSparse = 0x200

// mayHaveHoles reports whether to ask for a file's holes. Servers report none of files that are not marked as sparse, and
// asking takes a round trip.
func mayHaveHoles(info fs.FileInfo) bool {
	st, ok := info.Sys().(*client.FileStat)
	return !ok || st.FileAttributes&attrSparse != 0
}

// pieces are the ranges of the source, from start on, that have to be copied: everything, or, if the source has holes and out can
// have them, too, everything but the holes. The list is read after the source was described and before it is described again, as its
// bytes are: a change that would make it wrong is detected like one of the bytes.
func (j *job) pieces(in source, out sink, start int64) ([]client.Range, error) {
	everything := []client.Range{{Offset: start, Length: j.size - start}}
	if !j.mayHaveHoles {
		return everything, nil
	}
	data, err := in.AllocatedRanges(0, j.size)
	if err == nil && length(data) < j.size {
		if err = out.SetSparse(); err == nil {
			return from(start, data), nil
		}
	}
	if lost(err) {
		return nil, err
	}
	return everything, nil // also if one side refuses: the copy has the same bytes
}

// from is what of ranges is at start and behind it.
func from(start int64, ranges []client.Range) []client.Range {
	for i, r := range ranges {
		if end := r.Offset + r.Length; end > start {
			ranges[i].Offset = max(r.Offset, start)
			ranges[i].Length = end - ranges[i].Offset
			return ranges[i:]
		}
	}
	return nil
}

// roomTaken are the ranges of a file of size bytes that have room on its disk, as far as they are known.
func roomTaken(f sink, size int64) ([]client.Range, error) {
	list, err := f.AllocatedRanges(0, size)
	if lost(err) {
		return nil, err
	}
	if err != nil {
		list = []client.Range{{Offset: 0, Length: size}}
	}
	return list, nil
}

// punch makes ranges read as zeros.
func punch(ctx context.Context, f sink, ranges []client.Range) error {
	for _, r := range ranges {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.PunchHole(r.Offset, r.Length); err != nil {
			return err
		}
	}
	return nil
}

// outside is what of the ranges a is not in b. Both are in order.
func outside(a, b []client.Range) (rest []client.Range) {
	for _, r := range a {
		at, end := r.Offset, r.Offset+r.Length
		for len(b) > 0 && b[0].Offset+b[0].Length <= at {
			b = b[1:]
		}
		for _, x := range b {
			if x.Offset >= end {
				break
			}
			if x.Offset > at {
				rest = append(rest, client.Range{Offset: at, Length: x.Offset - at})
			}
			at = x.Offset + x.Length
		}
		if at < end {
			rest = append(rest, client.Range{Offset: at, Length: end - at})
		}
	}
	return rest
}

// before is what of ranges is before end.
func before(ranges []client.Range, end int64) []client.Range {
	return outside(ranges, []client.Range{{Offset: end, Length: math.MaxInt64 - end}})
}

func length(ranges []client.Range) (n int64) {
	for _, r := range ranges {
		n += r.Length
	}
	return n
}

// endsWith reports whether the last of ranges ends at size.
func endsWith(ranges []client.Range, size int64) bool {
	if len(ranges) == 0 {
		return size == 0
	}
	last := ranges[len(ranges)-1]
	return last.Offset+last.Length == size
}

// copyPieces copies ranges of in to the same places of out. The side on a server drives the copy, because it keeps many
// requests in flight.
func copyPieces(out sink, in source, pieces []client.Range, tick counter) (int64, error) {
	if f, ok := out.(*client.File); ok {
		return f.ReadRangesFrom(&readerInOrder{source: in, counter: tick, off: -1}, pieces)
	}
	return in.WriteRangesTo(writerCounter{out, tick}, pieces)
}

// readerInOrder reads a source at offsets that grow: reads without a gap are sequential for the source, which may read ahead.
type readerInOrder struct {
	source
	counter
	off int64 // the source's position; -1: not known
}

func (r *readerInOrder) ReadAt(p []byte, off int64) (int, error) {
	if off != r.off {
		if _, err := r.Seek(off, io.SeekStart); err != nil {
			return 0, err
		}
	}
	n, err := io.ReadFull(r.source, p)
	r.off = off + int64(n)
	return r.done(n, err)
}

type writerCounter struct {
	io.WriterAt
	counter
}

func (w writerCounter) WriteAt(p []byte, off int64) (int, error) {
	return w.done(w.WriterAt.WriteAt(p, off))
}

// localFile is a file on this machine.
type localFile struct{ *os.File }

// WriteRangesTo is the method of client.File.
func (f localFile) WriteRangesTo(w io.WriterAt, ranges []client.Range) (total int64, err error) {
	for _, r := range ranges {
		n, err := io.CopyN(io.NewOffsetWriter(w, r.Offset), io.NewSectionReader(f, r.Offset, r.Length), r.Length)
		total += n
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// PunchHole makes n bytes from off read as zeros. Where the file can have no hole there, they are written.
func (f localFile) PunchHole(off, n int64) error {
	if err := f.deallocate(off, n); err == nil {
		return nil
	}
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		part, err := f.WriteAt(zeros[:min(n, int64(len(zeros)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(part), n-int64(part)
	}
	return nil
}
