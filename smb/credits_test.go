package smb_test

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestCancelDuringWrite cancels a write while the server reads nothing (defect 2 of issue lists of other
// clients). The caller has its slice back at once and changes it; what the server receives in the end is
// complete, in frames whose MessageIds never repeat.
func TestCancelDuringWrite(t *testing.T) {
	for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		for _, over := range []string{"pipe", "tcp"} {
			t.Run(kind+"/"+over, func(t *testing.T) {
				s := protections()[kind]
				stalled, gate := make(chan struct{}, 1), make(chan struct{})
				seen := map[uint64]bool{}
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command != proto.CommandCancel && seen[m.MessageID] {
						t.Errorf("two frames with the MessageId %d", m.MessageID)
					}
					seen[m.MessageID] = true
					switch m.Command {
					case proto.CommandEcho:
						select {
						case stalled <- struct{}{}:
							<-gate
						default:
						}
					case proto.CommandWrite:
						for _, b := range m.Body[48 : 48+le.Uint32(m.Body[4:])] {
							if b != 0xaa {
								t.Error("the server received what the caller wrote into the slice afterwards")
								break
							}
						}
					}
					return false
				}
				d := smb.Dialer{DialFunc: through(t, s.Dial)}
				if over == "tcp" {
					d.DialFunc = through(t, s.DialTCP)
				}
				f, err := scripted(t, s, d)
				must(t, err)
				sess := share(f).Session()
				echoed := make(chan error, 1)
				go func() { echoed <- sess.Echo(t.Context()) }()
				<-stalled
				p := make([]byte, 8<<20)
				for i := range p {
					p[i] = 0xaa
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				n, err := f.WithContext(ctx).WriteAt(p, 0)
				if !errors.Is(err, context.Canceled) || n != 0 {
					t.Errorf("WriteAt = %d, %v", n, err)
				}
				clear(p)
				close(gate)
				must(t, <-echoed)
				checkRead(t, f, 100000, 3)
				for i := range p {
					p[i] = 0xaa
				}
				if n, err := f.WriteAt(p, 0); n != len(p) || err != nil {
					t.Errorf("afterwards WriteAt = %d, %v", n, err)
				}
			})
		}
	}
}

// share is the share of a scripted file.
func share(f *smb.File) *smb.Share { return f.Share() }

// TestCredits runs operations against a server that grants few credits: it sees no request beyond them, and
// every operation succeeds.
func TestCredits(t *testing.T) {
	for _, most := range []int{1, 2, 3, 4, 20} {
		t.Run(strconv.Itoa(most), func(t *testing.T) {
			granted, used := 1, 0
			next := uint64(0)
			s := &script.Server{}
			s.Grant = func(asked uint16) uint16 {
				n := max(0, min(int(asked), most-(granted-used)))
				granted += n
				return uint16(n)
			}
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command == proto.CommandCancel {
					return false
				}
				used += max(1, int(m.CreditCharge))
				if used > granted {
					t.Errorf("%d credits used, %d granted", used, granted)
				}
				if m.MessageID >= uint64(granted) {
					t.Errorf("MessageId %d outside the window of %d", m.MessageID, granted)
				}
				next++
				if m.Command == proto.CommandRead && int(m.CreditCharge) < (int(le.Uint32(m.Body[4:]))+65535)/65536 {
					t.Errorf("%d credits for %d bytes", m.CreditCharge, le.Uint32(m.Body[4:]))
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			var wg sync.WaitGroup
			for g := range 6 {
				wg.Go(func() {
					for i := range 5 {
						checkRead(t, f, 300_000*(1+i%3), int64(g*1000+i))
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestNoCredits connects to a server that grants no credits any more: the call fails instead of waiting for ever, and the next one
// succeeds on another connection.
func TestNoCredits(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			n := 0
			var generous atomic.Bool
			s := protections()[kind]
			s.Grant = func(asked uint16) uint16 {
				if n++; n > 4 && !generous.Load() {
					return 0
				}
				return 1
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			for i := 0; ; i++ {
				if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
					if !errors.Is(err, smb.ErrProtocol) {
						t.Error(err)
					}
					break
				}
				if i > 10 {
					t.Fatal("continued without credits")
				}
			}
			generous.Store(true)
			if _, err := f.Share().Stat("file"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPending receives interim replies (STATUS_PENDING) of every kind, several to each request.
func TestPending(t *testing.T) {
	for _, kind := range []string{"plain", "signed/GMAC", "signed/HMAC", "encrypted/GCM", "plain/one credit"} {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			never := false
			cancelled := make(chan uint64, 10)
			pending := make(chan struct{})
			var held *script.Message
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch m.Command {
				case proto.CommandRead, proto.CommandWrite, proto.CommandClose:
					for range 3 {
						c.Pend(m, 77)
					}
					if never {
						held = m
						close(pending)
					}
					return never
				case proto.CommandCancel:
					cancelled <- m.AsyncID
					if held != nil {
						c.Refuse(held, proto.StatusCancelled)
						held = nil
					}
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			checkRead(t, f, 200_000, 5)
			if n, err := f.WriteAt(make([]byte, 100), 0); n != 100 || err != nil {
				t.Fatal(n, err)
			}
			never = true
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			read := make(chan error, 1)
			go func() { _, err := f.WithContext(ctx).ReadAt(make([]byte, 10), 0); read <- err }()
			<-pending
			must(t, f.Share().Session().Echo(t.Context())) // the client has the interim replies, which came before
			cancel()
			if err := <-read; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if id := <-cancelled; id != 77 {
				t.Errorf("CANCEL of %d", id)
			}
			never = false
			checkRead(t, f, 200_000, 5)
			must(t, f.Close())
		})
	}
}

// TestPendingForever answers a request with interim replies only: the call ends with its context or with OperationTimeout, and the
// connection stays in use.
func TestPendingForever(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		for name, limits := range map[string]smb.Limits{"context": {}, "OperationTimeout": {OperationTimeout: time.Second}} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testPendingForever(t, protections()[kind], limits) })
			})
		}
	}
}

func testPendingForever(t *testing.T, s *script.Server, limits smb.Limits) {
	cancelled := make(chan struct{})
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandCancel {
			close(cancelled)
		}
		if m.Command != proto.CommandRead || m.CreditCharge > 1 {
			return false
		}
		go func(m script.Message) {
			for {
				select {
				case <-cancelled:
					c.Refuse(&m, proto.StatusCancelled)
					return
				case <-time.After(time.Millisecond):
					if c.Pend(&m, 77) != nil {
						return
					}
				}
			}
		}(*m)
		return true
	}
	f, err := scripted(t, s, smb.Dialer{NoReconnect: true, Limits: limits})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	begun, want := time.Now(), 2*time.Second
	if limits.OperationTimeout > 0 {
		want = limits.OperationTimeout
	}
	if _, err := f.WithContext(ctx).ReadAt(make([]byte, 10), 0); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != want {
		t.Errorf("%v after %v, want %v after %v", err, time.Since(begun), os.ErrDeadlineExceeded, want)
	}
	synctest.Wait()
	checkRead(t, f, 200_000, 5)
}

// TestConstantTime searches the client's source for comparisons of bytes in variable time, which are allowed
// only where nothing secret is compared.
func TestConstantTime(t *testing.T) {
	must(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		if !strings.Contains(name, "crypt") && !strings.Contains(name, "ntlm") && strings.Contains(name, string(filepath.Separator)) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		for _, imp := range file.Imports {
			if imp.Path.Value != `"bytes"` {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if strings.Contains(string(b), "bytes.Equal") || strings.Contains(string(b), "bytes.Compare") {
				t.Errorf("%s compares bytes in variable time", name)
			}
		}
		return nil
	}))
}

// TestStalled connects to a server that stops answering: the keep-alive ends the connection. A busy machine may take longer than that
// for the calls before the READ.
func TestStalled(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		gate := make(chan struct{})
		defer close(gate)
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command == proto.CommandEcho || m.Command == proto.CommandRead {
				<-gate
				return true
			}
			return false
		}
		d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), NoReconnect: true, DialFunc: through(t, s.Dial)}
		d.Limits.KeepAlive = 50 * time.Millisecond
		sess, err := d.Dial(t.Context(), "scripted")
		must(t, err)
		defer sess.Close()
		read := func() error {
			share, err := sess.Mount(t.Context(), "share")
			if err != nil {
				return err
			}
			f, err := share.Open("file")
			if err != nil {
				return err
			}
			_, err = f.ReadAt(make([]byte, 10), 0)
			return err
		}
		if err := read(); !errors.Is(err, smb.ErrConnLost) {
			t.Error(err)
		}
	})
}
