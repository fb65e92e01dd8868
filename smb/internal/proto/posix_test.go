package proto

import (
	"bytes"
	"errors"
	"testing"
)

// posixAttributes is the part that the structures of the POSIX extensions have in common, of user 1000 and group 100.
func posixAttributes(mode uint32) []byte {
	b := le.AppendUint32(nil, 2)
	b = le.AppendUint32(b, ReparseTagSymlink)
	b = le.AppendUint32(b, mode)
	for _, sid := range [][]uint32{{88, 1, 1000}, {22, 2, 100}} {
		b = append(b, 1, byte(len(sid)), 0, 0, 0, 0, 0, 5)
		for _, n := range sid {
			b = le.AppendUint32(b, n)
		}
	}
	return b
}

// posixInfo is a structure of ClassPOSIX.
func posixInfo(mode uint32) []byte {
	b := make([]byte, 68)
	le.PutUint64(b[32:], 1234)
	le.PutUint32(b[48:], uint32(AttrReparsePoint))
	le.PutUint64(b[52:], 77)
	le.PutUint32(b[60:], 5)
	return append(b, posixAttributes(mode)...)
}

func posixEntry(name string) []byte {
	b := append(make([]byte, 8), posixInfo(0o2755)...)
	b = le.AppendUint32(b, uint32(UTF16Len(name)))
	return AppendUTF16(b, name)
}

func TestPOSIXInfo(t *testing.T) {
	i, err := DecodePOSIXInfo(posixInfo(0o104751&^0o170000 | uint32(POSIXSymlink)<<12))
	if err != nil {
		t.Fatal(err)
	}
	a := i.POSIX
	if i.EndOfFile != 1234 || i.FileID != 77 || a.Links != 2 || a.Device != 5 || a.ReparseTag != ReparseTagSymlink || a.Mode&ModePermissions != 0o4751 || a.Type() != POSIXSymlink {
		t.Errorf("%+v %+v", i, a)
	}
	if a.Owner.String() != "S-1-5-88-1-1000" || a.Group.String() != "S-1-5-22-2-100" {
		t.Errorf("%v %v", a.Owner, a.Group)
	}
	for n := range len(posixInfo(0)) {
		if _, err := DecodePOSIXInfo(posixInfo(0)[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for name, at := range map[string]int{"revision of a SID": 80, "length of a SID": 81, "length of the file": 39} {
		b := posixInfo(0)
		b[at] = 0xff
		if _, err := DecodePOSIXInfo(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPOSIXEntries(t *testing.T) {
	first := posixEntry("näme")
	first = pad(first, 0)
	le.PutUint32(first, uint32(len(first)))
	e, err := DecodeQueryDirectoryResponse(output(append(first, posixEntry(`b:c*"`)...)), FilePOSIXInformation)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var before *POSIXAttributes
	for e.Next() {
		x := e.Entry()
		names = append(names, DecodeUTF16(x.Name))
		if x.POSIX == before || x.POSIX.Mode != 0o2755 || x.FileID != 77 || x.ReparseTag != ReparseTagSymlink || x.POSIX.Owner.String() != "S-1-5-88-1-1000" {
			t.Errorf("%+v %+v", x, x.POSIX)
		}
		before = x.POSIX
	}
	if e.Err() != nil || len(names) != 2 || names[0] != "näme" || names[1] != `b:c*"` {
		t.Error(names, e.Err())
	}
	broken := posixEntry("name")
	le.PutUint32(broken[len(broken)-12:], 9)
	e, _ = DecodeQueryDirectoryResponse(output(broken), FilePOSIXInformation)
	if e.Next() || !errors.Is(e.Err(), ErrMalformed) {
		t.Error("a name longer than its entry:", e.Err())
	}
}

// TestPOSIXContexts: what is asked for is decoded by the functions for answers.
func TestPOSIXContexts(t *testing.T) {
	for _, c := range []CreateContexts{{POSIX: true, Mode: 0o640}, {POSIX: true, Mode: 0o640, QueryOnDiskID: true, Timewarp: 5, Lease: Lease{Version: LeaseV2}}} {
		list := c.append(nil)
		if len(list) != c.size() {
			t.Errorf("%d bytes, said %d", len(list), c.size())
		}
		at := bytes.Index(list, []byte(posixTag))
		if at < 16 || le.Uint32(list[at+16:]) != 0o640 || le.Uint16(list[at-16+10:]) != 32 || le.Uint32(list[at-16+12:]) != 4 {
			t.Errorf("%x", list)
		}
	}
	r := &NegotiateRequest{Salt: make([]byte, 32), POSIX: true, NetName: "server", Dialects: []Dialect{Dialect311}}
	b := r.Append(nil)
	if len(b) != r.Size() {
		t.Errorf("%d bytes, said %d", len(b), r.Size())
	}
	answer := message(64, 65, func(b []byte) {
		le.PutUint16(b[4:], uint16(Dialect311))
		le.PutUint16(b[6:], r.contextsCount())
		le.PutUint32(b[60:], HeaderSize+64)
	})
	got, err := DecodeNegotiateResponse(r.appendContexts(answer, 0))
	if err != nil || !got.Contexts.POSIX {
		t.Errorf("%+v %v", got.Contexts, err)
	}
}

func TestModeDescriptor(t *testing.T) {
	b := AppendModeDescriptor(nil, 0o100640)
	if len(b) != 20+8+8+20 || le.Uint32(b[16:]) != 20 || int(le.Uint16(b[22:])) != len(b)-20 || int(le.Uint16(b[30:])) != len(b)-28 {
		t.Errorf("%x", b)
	}
	if sid := SID(b[36:]).String(); sid != "S-1-5-88-3-416" {
		t.Error(sid)
	}
}
