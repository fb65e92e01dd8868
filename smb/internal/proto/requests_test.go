package proto

import (
	"bytes"
	"errors"
	"testing"
)

type request interface {
	Size() int
	Append([]byte) []byte
}

// requests has every request, in the variants that change its layout.
func requests() map[string]request {
	id := FileID{1, 2}
	return map[string]request{
		"negotiate 2": &NegotiateRequest{Dialects: []Dialect{Dialect202, Dialect210}},
		"negotiate 3": &NegotiateRequest{Dialects: []Dialect{Dialect202, Dialect300, Dialect311},
			Salt: make([]byte, 32), Ciphers: []Cipher{2, 4, 1}, SigningAlgorithms: []SigningAlgorithm{2, 1, 0}, NetName: "söme.host"},
		"negotiate bare":  &NegotiateRequest{Dialects: []Dialect{Dialect311}, Salt: make([]byte, 5)},
		"session setup":   &SessionSetupRequest{Token: []byte("token"), PreviousSessionID: 9},
		"tree connect":    &TreeConnectRequest{Path: `\\host\share`},
		"create":          &CreateRequest{Name: `dir\file`, Access: AccessGenericRead},
		"create root":     &CreateRequest{},
		"create contexts": &CreateRequest{Name: "x", Contexts: allContexts()},
		"create root contexts": &CreateRequest{Contexts: CreateContexts{
			MaximalAccess: true, QueryOnDiskID: true, Durable: Durable{Kind: DurableReconnectV2}, Lease: Lease{Version: LeaseV1}}},
		"close":           &CloseRequest{Flags: ClosePostQuery, FileID: id},
		"flush":           &FlushRequest{FileID: id},
		"read":            &ReadRequest{Length: 1 << 20, Offset: 1 << 40, FileID: id},
		"write":           &WriteRequest{Length: 1 << 20, Offset: 1 << 40, FileID: id},
		"lock":            &LockRequest{FileID: id, Locks: []LockElement{{1, 2, LockShared}, {3, 4, LockShared}}},
		"query directory": &QueryDirectoryRequest{Class: FileIDBothDirectoryInformation, Pattern: "*", FileID: id},
		"query info":      &QueryInfoRequest{Type: InfoFile, Class: ClassAll, FileID: id},
		"set info":        &SetInfoRequest{Type: InfoFile, Class: ClassEndOfFile, Info: AppendSize(nil, 7), FileID: id},
		"ioctl":           &IoctlRequest{Code: FsctlPipeTransceive, Input: []byte("in"), FileID: id},
		"ioctl empty":     &IoctlRequest{Code: FsctlGetReparsePoint, Output: 100, FileID: id},
		"change notify":   &ChangeNotifyRequest{Flags: NotifyTree, FileID: id},
		"oplock ack":      &OplockAck{FileID: id},
		"lease ack":       &LeaseAck{},
	}
}

func allContexts() CreateContexts {
	return CreateContexts{
		Lease:         Lease{Version: LeaseV2, Key: [16]byte{5}, State: LeaseRead, Epoch: 3, Flags: LeaseFlagParentKeySet, ParentKey: [16]byte{6}},
		Durable:       Durable{Kind: DurableRequestV2, Timeout: 1000, CreateGUID: [16]byte{8}},
		MaximalAccess: true, QueryOnDiskID: true, Timewarp: 77,
	}
}

// structureSizes are those of the requests in MS-SMB2: a wrong one is refused by every server.
var structureSizes = map[string]uint16{
	"negotiate 2": 36, "negotiate 3": 36, "negotiate bare": 36, "session setup": 25, "tree connect": 9,
	"create": 57, "create root": 57, "create contexts": 57, "create root contexts": 57, "close": 24, "flush": 24,
	"read": 49, "write": 49, "lock": 48, "query directory": 33, "query info": 41, "set info": 33, "ioctl": 57,
	"ioctl empty": 57, "change notify": 32, "oplock ack": 24, "lease ack": 36,
}

func TestRequestSizes(t *testing.T) {
	for name, r := range requests() {
		var want []byte
		for _, prefix := range []int{0, HeaderSize, HeaderSize + 4, 131} {
			b := r.Append(bytes.Repeat([]byte{0xee}, prefix))
			if len(b)-prefix != r.Size() {
				t.Errorf("%s: %d bytes, Size says %d", name, len(b)-prefix, r.Size())
			}
			if want == nil {
				want = b
			}
			if !bytes.Equal(b[prefix:], want) {
				t.Errorf("%s: what stands before changes it", name)
			}
		}
		if got := le.Uint16(want); got != structureSizes[name] {
			t.Errorf("%s: structure size %d, want %d", name, got, structureSizes[name])
		}
		room := make([]byte, 0, r.Size())
		if n := testing.AllocsPerRun(10, func() { r.Append(room) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestNegotiateContextsAligned(t *testing.T) {
	r := NegotiateRequest{Dialects: []Dialect{Dialect300, Dialect302, Dialect311}, Salt: make([]byte, 32),
		Ciphers: []Cipher{CipherAES128GCM}, SigningAlgorithms: []SigningAlgorithm{SigningAESGMAC}, NetName: "host"}
	msg := r.Append((&Header{}).Append(nil))
	off, count := le.Uint32(msg[HeaderSize+28:]), le.Uint16(msg[HeaderSize+32:])
	if off&7 != 0 || count != 4 {
		t.Fatalf("%d contexts at %d", count, off)
	}
	// the decoder of a response expects the contexts behind 128 bytes, so make space in front
	shifted := append(make([]byte, 128), msg...)
	c, err := decodeNegotiateContexts(shifted, off+128, count)
	if err != nil || !c.HasPreauth || c.PreauthHash != HashSHA512 || c.Cipher != CipherAES128GCM || !c.HasSigning || c.Signing != SigningAESGMAC {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCreateContextsReadBack(t *testing.T) {
	r := CreateRequest{Name: "odd", Contexts: allContexts()}
	msg := r.Append((&Header{}).Append(nil))
	b := msg[HeaderSize:]
	off, n := le.Uint32(b[48:]), le.Uint32(b[52:])
	if off&7 != 0 || int(off+n) != len(msg) {
		t.Fatalf("%d bytes of contexts at %d of %d", n, off, len(msg))
	}
	// the MxAc and QFid of a request are empty, too short for a response: remove them
	want := r.Contexts.Lease
	r.Contexts = CreateContexts{Lease: r.Contexts.Lease, Durable: r.Contexts.Durable}
	g, err := decodeCreateGrants(r.Contexts.append(nil))
	if err != nil || g.Lease != want || g.Durable != DurableRequestV2 || g.DurableTimeout != 1000 {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestRenameSize(t *testing.T) {
	for _, name := range []string{"", "a", "ab", "abc", `dir\a longer name`} {
		i := RenameInfo{Name: name, Replace: true}
		if b := i.Append(nil); len(b) != i.Size() || len(b) < 24 || b[0] != 1 {
			t.Errorf("%q: %d bytes, Size says %d", name, len(b), i.Size())
		}
		if b := i.AppendEx(nil, RenamePOSIXSemantics); len(b) != i.Size() || b[0] != 2 {
			t.Errorf("%q: extended: %x", name, b)
		}
	}
}

func TestTransformHeader(t *testing.T) {
	h := TransformHeader{Signature: [16]byte{1}, Nonce: [16]byte{2}, Size: 70, Flags: TransformEncrypted, SessionID: 3}
	frame := append(h.Append(nil), make([]byte, 70)...)
	if got, err := DecodeTransformHeader(frame); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	for name, at := range map[string]int{"protocol": 0, "size": TransformSize, "flags": TransformFlagsField} {
		b := bytes.Clone(frame)
		b[at]++
		if _, err := DecodeTransformHeader(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeTransformHeader(frame[:51]); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}
