package smb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// pipeCalls gives the requests on pipes to call, with their numbers from 0, and counts how often one was opened. Those for which call
// returns false are answered with one share, "data".
func pipeCalls(s *script.Server, call func(n int, c *script.Conn, m *script.Message) bool) (opened *int) {
	le, calls := binary.LittleEndian, 0
	opened = new(int)
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandCreate {
			*opened++
		}
		if m.Command != proto.CommandIoctl || le.Uint32(m.Body[4:]) != proto.FsctlPipeTransceive {
			return false
		}
		calls++
		if call(calls-1, c, m) {
			return true
		}
		in := m.Body[le.Uint32(m.Body[24:])-proto.HeaderSize:]
		pdu := append([]byte{5, 0, 2, 3, 0x10, 0, 0, 0, 0, 0, 0, 0}, in[12:16]...)
		if in[2] == 11 { // a bind
			pdu[2] = 12
			pdu = append(pdu, 0xb8, 0x10, 0xb8, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
		} else {
			pdu = append(pdu, make([]byte, 8)...)
			for _, x := range []uint32{1, 1, 1, 1, 1, 1, 1, 0, 0, 5, 0, 5, 'd' | 'a'<<16, 't' | 'a'<<16, 0, 1, 0, 0} {
				pdu = le.AppendUint32(pdu, x)
			}
		}
		le.PutUint16(pdu[8:], uint16(len(pdu)))
		body := make([]byte, 48, 48+len(pdu))
		body[0] = 49
		copy(body[4:24], m.Body[4:24]) // the code and the file
		le.PutUint32(body[32:], proto.HeaderSize+48)
		le.PutUint32(body[36:], uint32(len(pdu)))
		c.Reply(m, 0, append(body, pdu...), script.AsAsked)
		return true
	}
	return opened
}

// pipeSession dials s.
func pipeSession(t *testing.T, s *script.Server, limits smb.Limits) *smb.Session {
	t.Helper()
	limits.KeepAlive = -1
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), AllowUnsigned: true, DialFunc: through(t, s.Dial), Limits: limits}
	sess, err := d.Dial(context.Background(), "scripted")
	must(t, err)
	t.Cleanup(func() { sess.Close() })
	return sess
}

// pendCloseOnce has s acknowledge the first CLOSE and not answer it.
func pendCloseOnce(s *script.Server) {
	others, pended := s.Hook, false
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandClose && !pended {
			pended = true
			c.Pend(m, 6)
			return true
		}
		return others(c, m)
	}
}

// TestSharesPipeEnds has the process behind the pipe end during a request: the shares are listed over another pipe, once. Requests 0 and
// 1 bind and list on the first pipe, 2 binds on the second.
func TestSharesPipeEnds(t *testing.T) {
	for _, status := range []proto.Status{proto.StatusConnectionDisconnected, proto.StatusPipeDisconnected, proto.StatusPipeBroken} {
		for name, c := range map[string]struct {
			refused []int
			pipes   int
			err     error
		}{
			"none": {pipes: 1}, "bind": {[]int{0}, 2, nil}, "list": {[]int{1}, 2, nil}, "twice": {[]int{1, 2}, 2, smb.Status(status)},
		} {
			t.Run(status.String()+"/"+name, func(t *testing.T) {
				s := protections()["signed/CMAC"]
				opened := pipeCalls(s, func(n int, conn *script.Conn, m *script.Message) bool {
					if slices.Contains(c.refused, n) {
						conn.Refuse(m, status)
						return true
					}
					return false
				})
				list, err := pipeSession(t, s, smb.Limits{}).Shares(t.Context())
				if !errors.Is(err, c.err) || *opened != c.pipes || err == nil && (len(list) != 1 || list[0].Name != "data") {
					t.Errorf("%v, %v, over %d pipes", list, err, *opened)
				}
			})
		}
	}
}

// TestSharesUnanswered has the server acknowledge a request on a pipe, or that and the CLOSE after it, and not answer: Shares returns
// after 30 seconds for each, or when the caller's context or OperationTimeout says so, and the session stays in use.
func TestSharesUnanswered(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for name, c := range map[string]struct {
		operation, ctx, want time.Duration
		n                    int  // which request
		close                bool // and CLOSE
	}{
		"bind": {want: 30 * time.Second}, "list": {want: 30 * time.Second, n: 1}, "list and close": {want: time.Minute, n: 1, close: true},
		"OperationTimeout": {operation: time.Minute, want: time.Minute}, "context": {ctx: time.Hour, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			eachKindFake(t, func(t *testing.T, s *script.Server) {
				pipeCalls(s, func(n int, conn *script.Conn, m *script.Message) bool {
					if n != c.n {
						return false
					}
					conn.Pend(m, 5)
					return true
				})
				if c.close {
					pendCloseOnce(s)
				}
				sess := pipeSession(t, s, smb.Limits{OperationTimeout: c.operation})
				ctx := t.Context()
				if c.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.ctx)
					defer cancel()
				}
				begun := time.Now()
				_, err := sess.Shares(ctx)
				if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != c.want {
					t.Errorf("%v after %v, want %v", err, took, c.want)
				}
				if list, err := sess.Shares(t.Context()); err != nil || len(list) != 1 {
					t.Errorf("again: %v, %v", list, err)
				}
			})
		})
	}
}
