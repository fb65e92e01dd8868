package proto

import (
	"errors"
	"fmt"
	"testing"
)

// message is a response's header and body of n bytes with the structure size, to be
// filled in by f.
func message(n int, size uint16, f func(b []byte)) []byte {
	msg := append((&Header{Flags: FlagResponse}).Append(nil), make([]byte, n)...)
	le.PutUint16(msg[HeaderSize:], size)
	if f != nil {
		f(msg[HeaderSize:])
	}
	return msg
}

func output(data []byte) []byte {
	return append(message(8, 9, func(b []byte) {
		le.PutUint16(b[2:], HeaderSize+8)
		le.PutUint32(b[4:], uint32(len(data)))
	}), data...)
}

func readResponse(offset int, data string) []byte {
	msg := message(offset-HeaderSize, 17, func(b []byte) {
		b[2] = byte(offset)
		le.PutUint32(b[4:], uint32(len(data)))
	})
	return append(msg, data...)
}

func TestReadResponse(t *testing.T) {
	for _, offset := range []int{80, 81, 96, 255} {
		r, err := DecodeReadResponse(readResponse(offset, "payload"))
		if err != nil || string(r.Data) != "payload" {
			t.Errorf("data at %d: %q, %v", offset, r.Data, err)
		}
		p, err := DecodeReadPrefix(readResponse(offset, "payload")[:ReadResponsePrefix])
		if err != nil || p.Offset != uint32(offset) || p.Length != 7 {
			t.Errorf("data at %d: %+v, %v", offset, p, err)
		}
	}
	if r, err := DecodeReadResponse(message(16, 17, nil)); err != nil || len(r.Data) != 0 {
		t.Errorf("empty with offset 0: %v", err)
	}
	for name, f := range map[string]func(b []byte){
		"in the header":  func(b []byte) { b[2] = 64 },
		"past the end":   func(b []byte) { b[2] = 200 },
		"length":         func(b []byte) { le.PutUint32(b[4:], 8) },
		"huge length":    func(b []byte) { le.PutUint32(b[4:], 0xffffffff) },
		"structure size": func(b []byte) { b[0] = 18 },
	} {
		msg := readResponse(80, "payload")
		f(msg[HeaderSize:])
		if _, err := DecodeReadResponse(msg); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func dirClasses() []DirClass {
	return []DirClass{FileDirectoryInformation, FileIDBothDirectoryInformation}
}

func TestDirEntries(t *testing.T) {
	for _, class := range dirClasses() {
		testDirEntries(t, class)
	}
}

func testDirEntries(t *testing.T, class DirClass) {
	var b []byte
	for i := range 5 {
		start := len(b)
		b = append(b, make([]byte, class.fixed())...)
		name := fmt.Sprintf("näme-%d", i)
		le.PutUint64(b[start+40:], uint64(i)*1000)
		le.PutUint32(b[start+60:], uint32(UTF16Len(name)))
		b = AppendUTF16(b, name)
		if i < 4 {
			b = pad(b, start)
			le.PutUint32(b[start:], uint32(len(b)-start))
		}
	}
	e, err := DecodeQueryDirectoryResponse(output(b), class)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; e.Next(); n++ {
		if got := DecodeUTF16(e.Entry().Name); got != fmt.Sprintf("näme-%d", n) || e.Entry().EndOfFile != uint64(n)*1000 {
			t.Errorf("entry %d: %q", n, got)
		}
	}
	if n != 5 || e.Err() != nil {
		t.Errorf("%d entries, %v", n, e.Err())
	}
	le.PutUint32(b[60:], 1<<31)
	e, _ = DecodeQueryDirectoryResponse(output(b), class)
	if e.Next() || !errors.Is(e.Err(), ErrMalformed) {
		t.Errorf("name past its entry: %v", e.Err())
	}
	le.PutUint32(b, 8)
	e, _ = DecodeQueryDirectoryResponse(output(b), class)
	if e.Next() || !errors.Is(e.Err(), ErrMalformed) {
		t.Errorf("entry into itself: %v", e.Err())
	}
}

func TestNotifyEvents(t *testing.T) {
	b := le.AppendUint32(nil, 16)
	b = le.AppendUint32(b, uint32(NotifyAdded))
	b = le.AppendUint32(b, 4)
	b = AppendUTF16(b, "ab")
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(NotifyRemoved))
	b = le.AppendUint32(b, 2)
	b = AppendUTF16(b, "c")
	e, err := DecodeChangeNotifyResponse(output(b))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for e.Next() {
		got += fmt.Sprint(e.Event().Action, DecodeUTF16(e.Event().Name), " ")
	}
	if got != "1ab 2c " || e.Err() != nil {
		t.Errorf("%q, %v", got, e.Err())
	}
}

func symlinkData(target string) []byte {
	n := UTF16Len(target)
	b := le.AppendUint32(nil, uint32(24+2*n))
	b = le.AppendUint32(b, symlinkErrorTag)
	b = le.AppendUint32(b, ReparseTagSymlink)
	b = le.AppendUint16(b, uint16(12+2*n))
	b = le.AppendUint16(b, 6)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, uint16(n))
	b = le.AppendUint16(b, uint16(n))
	b = le.AppendUint16(b, uint16(n))
	b = le.AppendUint32(b, SymlinkRelative)
	return AppendUTF16(AppendUTF16(b, target), target)
}

func errorMessage(count byte, data []byte) []byte {
	return append(message(8, 9, func(b []byte) {
		b[2] = count
		le.PutUint32(b[4:], uint32(len(data)))
	}), data...)
}

func TestErrorResponse(t *testing.T) {
	data := symlinkData(`..\target`)
	wrapped := le.AppendUint32(nil, uint32(len(data)))
	wrapped = append(le.AppendUint32(wrapped, 0), data...)
	two := append(append([]byte(nil), pad(append([]byte(nil), wrapped...), 0)...), wrapped...)
	for name, msg := range map[string][]byte{
		"plain": errorMessage(0, data), "context": errorMessage(1, wrapped), "two": errorMessage(2, two),
	} {
		r, err := DecodeErrorResponse(msg, StatusStoppedOnSymlink, Dialect311)
		if err != nil || !r.HasSymlink || DecodeUTF16(r.Symlink.Substitute) != `..\target` || r.Symlink.Unparsed != 6 ||
			r.Symlink.Flags != SymlinkRelative || DecodeUTF16(r.Symlink.Print) != `..\target` {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if r, err := DecodeErrorResponse(errorMessage(0, []byte{9, 0, 0, 0}), StatusBufferTooSmall, Dialect302); err != nil || r.Required != 9 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := DecodeErrorResponse(message(2, 4, nil), StatusAccessDenied, Dialect311); err != nil {
		t.Errorf("an error without an error's body: %v", err)
	}
	if _, err := DecodeErrorResponse(errorMessage(3, wrapped), StatusStoppedOnSymlink, Dialect311); !errors.Is(err, ErrMalformed) {
		t.Errorf("too few contexts: %v", err)
	}
}

func TestReparse(t *testing.T) {
	r, err := DecodeReparse(AppendSymlink(nil, `a\b`, SymlinkRelative))
	if err != nil || DecodeUTF16(r.Substitute) != `a\b` || DecodeUTF16(r.Print) != `a\b` || r.Flags != SymlinkRelative {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := DecodeReparse([]byte{0x14, 0, 0, 0x80, 2, 0, 0, 0, 1, 2}); err != nil || r.Tag != ReparseTagNFS {
		t.Errorf("another tag: %+v, %v", r, err)
	}
}

func TestReferrals(t *testing.T) {
	e := le.AppendUint16(nil, 4)
	e = le.AppendUint16(e, 34)
	e = append(e, 0, 0, 4, 0)
	e = le.AppendUint32(e, 300)
	names := AppendUTF16(nil, "\\dfs\\x\x00\\dfs\\x\x00\\srv\\share\x00")
	for _, at := range []int{34, 34 + 14, 34 + 28} {
		e = le.AppendUint16(e, uint16(at))
	}
	e = append(append(e, make([]byte, 16)...), names...)
	b := append([]byte{12, 0, 1, 0, 2, 0, 0, 0}, e...)
	r, err := DecodeReferrals(b)
	if err != nil || r.Consumed != 12 || !r.Next() {
		t.Fatalf("%+v, %v %v", r, err, r.Err())
	}
	if got := r.Referral(); DecodeUTF16(got.Target) != `\srv\share` || DecodeUTF16(got.Path) != `\dfs\x` || got.TTL != 300 {
		t.Errorf("%+v", got)
	}
	if r.Next() || r.Err() != nil {
		t.Error("a second one")
	}
	b[2] = 9
	r, _ = DecodeReferrals(b)
	for r.Next() {
	}
	if !errors.Is(r.Err(), ErrMalformed) {
		t.Errorf("nine of one: %v", r.Err())
	}
}
