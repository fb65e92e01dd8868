package proto

import (
	"bytes"
	"errors"
	"testing"
)

func TestHeaderRoundTrip(t *testing.T) {
	for _, h := range []Header{
		{},
		{CreditCharge: 16, Status: StatusPending, Command: CommandChangeNotify, Credits: 3,
			Flags: FlagResponse | FlagAsync, MessageID: 1 << 60, AsyncID: 0x1122334455667788, SessionID: 42},
		{Command: CommandRead, Flags: FlagSigned | FlagRelated, NextCommand: 120, TreeID: 7,
			SessionID: ^uint64(0), Signature: [16]byte{1, 2, 3, 15: 9}},
	} {
		b := h.Append([]byte("prefix"))
		if len(b) != 6+HeaderSize {
			t.Fatalf("%d bytes", len(b))
		}
		got, err := DecodeHeader(b[6:])
		if err != nil || got != h {
			t.Errorf("%+v came back as %+v, %v", h, got, err)
		}
	}
}

func TestHeaderRefused(t *testing.T) {
	good := (&Header{}).Append(nil)
	bad := map[string][]byte{"empty": nil, "short": good[:63]}
	for name, at := range map[string]int{"protocol": 0, "structure size": 4} {
		b := bytes.Clone(good)
		b[at]++
		bad[name] = b
	}
	for name, b := range bad {
		if _, err := DecodeHeader(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if Protocol(good) != ProtocolSMB2 || Protocol(nil) != 0 {
		t.Error("Protocol")
	}
}

func TestElements(t *testing.T) {
	var frame []byte
	for i := range 4 {
		start := len(frame)
		h := Header{MessageID: uint64(i)}
		frame = AppendSimple(h.Append(frame))
		frame = append(frame, make([]byte, i)...)
		if i < 3 {
			frame = PadCompound(frame, start)
		}
	}
	n := uint64(0)
	e := NewElements(frame)
	for e.Next() {
		h, err := DecodeHeader(e.Message())
		if err != nil || h.MessageID != n {
			t.Fatalf("message %d: %+v %v", n, h, err)
		}
		if _, err := body(e.Message(), "ECHO", SimpleSize, SimpleSize); err != nil {
			t.Error(err)
		}
		n++
	}
	if n != 4 || e.Err() != nil {
		t.Errorf("%d messages, %v", n, e.Err())
	}
	for _, next := range []uint32{1, 8, 63, 65, 0xfffffff8, uint32(len(frame))} {
		b := bytes.Clone(frame)
		le.PutUint32(b[OffsetNextCommand:], next)
		e := NewElements(b)
		for e.Next() {
		}
		if !errors.Is(e.Err(), ErrMalformed) {
			t.Errorf("NextCommand %d: %v", next, e.Err())
		}
	}
}

func TestStatus(t *testing.T) {
	for i := 1; i < len(statusNames); i++ {
		if statusNames[i-1].status >= statusNames[i].status {
			t.Errorf("%v is not above %v", statusNames[i], statusNames[i-1])
		}
	}
	for s, want := range map[Status]string{
		StatusSuccess: "STATUS_SUCCESS", StatusObjectNameNotFound: "STATUS_OBJECT_NAME_NOT_FOUND",
		StatusPending: "STATUS_PENDING", 0xdeadbeef: "NTSTATUS 0xdeadbeef",
	} {
		if s.Error() != want {
			t.Errorf("%q, want %q", s.Error(), want)
		}
	}
	if !StatusPending.Success() || StatusEndOfFile.Success() || !StatusBufferOverflow.Warning() {
		t.Error("severities")
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"READ": CommandRead.String(), "OPLOCK_BREAK": CommandOplockBreak.String(), "command 0x00000013": Command(19).String(),
		"3.1.1": Dialect311.String(), "2.0.2": Dialect202.String(), "dialect 0x00000001": Dialect(1).String(),
		"AES-256-GCM": CipherAES256GCM.String(), "cipher 0x00000009": Cipher(9).String(),
		"AES-GMAC": SigningAESGMAC.String(), "signing algorithm 0x00000009": SigningAlgorithm(9).String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
