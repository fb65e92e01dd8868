package smb_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	"github.com/tarn-go/tarn/tarntest"
)

// memoryServer gives a scripted server files that outlive its connections, and durable handles for them. It carries out WRITEs in an
// order of its own, as servers do that work on several at once.
type memoryServer struct {
	work  sync.WaitGroup // on WRITEs
	mu    sync.Mutex
	last  *script.Conn // of the session; a new one ends that before (MS-SMB2 3.3.5.5.3)
	ids   map[string]uint64
	files map[uint64][]byte
}

func (m *memoryServer) serve(s *script.Server) {
	m.ids, m.files = map[string]uint64{}, map[uint64][]byte{}
	s.Hook = m.hook
}

func (m *memoryServer) hook(c *script.Conn, msg *script.Message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch msg.Command {
	case proto.CommandNegotiate:
		return false
	case proto.CommandSessionSetup:
		m.last = c
		return false
	}
	if c != m.last {
		c.Close()
		return true
	}
	switch msg.Command {
	case proto.CommandCreate:
		name := script.NameOf(msg)
		id := m.ids[name]
		if id == 0 {
			id = uint64(len(m.ids) + 1)
			m.ids[name] = id
		}
		if proto.Disposition(le.Uint32(msg.Body[36:])) == proto.DispositionOverwriteIf {
			m.files[id] = nil
		}
		c.Opened(msg, durableGrant(), func(b []byte) {
			b[2] = byte(proto.OplockBatch)
			le.PutUint64(b[48:], uint64(len(m.files[id])))
			le.PutUint64(b[64:], id)
		})
		return true
	case proto.CommandRead:
		id, off, n := le.Uint64(msg.Body[16:]), int(le.Uint64(msg.Body[8:])), int(le.Uint32(msg.Body[4:]))
		file := m.files[id]
		if off >= len(file) {
			c.Refuse(msg, proto.StatusEndOfFile)
			return true
		}
		data := file[off:min(off+n, len(file))]
		readReply(c, msg, len(data), func(reply []byte) { copy(reply[80:], data) })
		return true
	case proto.CommandWrite:
		if msg.Flags&proto.FlagRelated != 0 {
			m.write(msg)
			return false
		}
		later := *msg
		later.Body = bytes.Clone(msg.Body)
		m.work.Go(func() { m.writeLater(c, &later) })
		return true
	}
	return false
}

// writeLater carries out a WRITE of c after other goroutines have run, unless the session has another connection by then, and answers it.
func (m *memoryServer) writeLater(c *script.Conn, msg *script.Message) {
	for range rand.IntN(100) {
		runtime.Gosched()
	}
	m.mu.Lock()
	current := c == m.last
	if current {
		m.write(msg)
	}
	m.mu.Unlock()
	if current {
		reply := make([]byte, 16)
		reply[0] = 17
		copy(reply[4:], msg.Body[4:8])
		c.Reply(msg, proto.StatusSuccess, reply, script.AsAsked)
	}
}

// write carries out a WRITE. m.mu is held.
func (m *memoryServer) write(msg *script.Message) {
	id, off, n := le.Uint64(msg.Body[16:]), int(le.Uint64(msg.Body[8:])), int(le.Uint32(msg.Body[4:]))
	file := m.files[id]
	if need := off + n; need > len(file) {
		file = append(file, make([]byte, need-len(file))...)
	}
	copy(file[off:], msg.Body[48:][:n])
	m.files[id] = file
}

// flaky dials a server and closes the connections that it dialled.
type flaky struct {
	s    *script.Server
	mu   sync.Mutex
	last net.Conn
	cuts int
}

func (f *flaky) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := f.s.Dial
	if rand.IntN(2) == 0 {
		dial = f.s.DialTCP
	}
	nc, err := dial(ctx, network, addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = nc
	return nc, err
}

func (f *flaky) cutEvery(pause time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		f.mu.Lock()
		if f.last == nil { // the last dial failed
			f.mu.Unlock()
			continue
		}
		if tcp, ok := f.last.(*net.TCPConn); ok && f.cuts%2 == 0 {
			tcp.SetLinger(0) // RST
		}
		f.last.Close()
		f.cuts++
		f.mu.Unlock()
	}
}

// TestStress runs eight goroutines that read and write their own files and a shared one, cancel at random,
// and lose the connection every 100 ms. Every byte is checked, every buffer is freed, and no goroutine is
// left.
func TestStress(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			stress(t, kind, tarntest.NewPool(t))
			deadline := time.After(10 * time.Second)
			for runtime.NumGoroutine() > goroutines {
				select {
				case <-deadline:
					buf := make([]byte, 1<<20)
					t.Fatalf("goroutines left:\n%s", buf[:runtime.Stack(buf, true)])
				default:
					runtime.Gosched()
				}
			}
		})
	}
}

func stress(t *testing.T, kind string, pool *tarn.Pool) {
	s := protections()[kind]
	var disk memoryServer
	disk.serve(s)
	cutter := &flaky{s: s}
	d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, cutter.dial), Pool: pool, Limits: smb.Limits{KeepAlive: -1, DialTimeout: 5 * time.Second}}
	sess, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	defer sess.Close()
	share, err := sess.Mount(t.Context(), "share")
	must(t, err)
	shared := random(3 << 20)
	must(t, share.WriteFile("shared", shared, 0o666))
	f, err := share.Open("shared")
	must(t, err)
	stop := make(chan struct{})
	var cuts, users sync.WaitGroup
	cuts.Go(func() { cutter.cutEvery(100*time.Millisecond, stop) })
	end := time.Now().Add(1500 * time.Millisecond)
	for i := range 8 {
		users.Go(func() {
			u := stressed{t: t, share: share, shared: f, want: shared, name: "own" + strconv.Itoa(i)}
			u.run(end)
		})
	}
	users.Wait()
	close(stop)
	cuts.Wait()
	disk.work.Wait()
	if cutter.cuts < 5 {
		t.Errorf("%d cuts", cutter.cuts)
	}
	disk.mu.Lock()
	defer disk.mu.Unlock()
	if !bytes.Equal(disk.files[disk.ids["shared"]], shared) {
		t.Error("the shared file has other content")
	}
}

// stressed is one goroutine of the stress test.
type stressed struct {
	t      *testing.T
	share  *smb.Share
	shared *smb.File
	want   []byte // of the shared file
	name   string
	model  []byte // of its own file
}

// tolerable reports whether err may be caused by a closed connection or by the goroutine's own context.
func (u *stressed) tolerable(err error) bool {
	return err == nil || errors.Is(err, smb.ErrConnLost) || errors.Is(err, os.ErrDeadlineExceeded)
}

func (u *stressed) check(what string, err error) {
	if !u.tolerable(err) {
		u.t.Errorf("%s: %s: %v", u.name, what, err)
	}
}

func (u *stressed) run(end time.Time) {
	u.model = random(500_000)
	for u.share.WriteFile(u.name, u.model, 0o666) != nil {
	}
	own, err := u.share.OpenFile(u.name, os.O_RDWR, 0)
	for u.tolerable(err) && err != nil {
		own, err = u.share.OpenFile(u.name, os.O_RDWR, 0)
	}
	if err != nil {
		u.t.Error(err)
		return
	}
	for time.Now().Before(end) && !u.t.Failed() {
		ctx, cancel := context.Background(), func() {}
		if rand.IntN(3) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(5000))*time.Microsecond)
		}
		switch rand.IntN(6) {
		case 0:
			p := make([]byte, 1+rand.IntN(2<<20))
			off := rand.IntN(len(u.want))
			n, err := u.shared.WithContext(ctx).ReadAt(p, int64(off))
			if err == io.EOF {
				err = nil
			}
			u.check("ReadAt", err)
			if err == nil && !bytes.Equal(p[:n], u.want[off:off+n]) {
				u.t.Errorf("%s: ReadAt has wrong bytes", u.name)
			}
		case 1:
			p := random(1 + rand.IntN(400_000))
			off := rand.IntN(len(u.model) - 1)
			p = p[:min(len(p), len(u.model)-off)]
			_, err := own.WithContext(ctx).WriteAt(p, int64(off))
			u.check("WriteAt", err)
			for err != nil && u.tolerable(err) { // written in part, perhaps; other bytes, which the first ones must not overwrite
				p = random(len(p))
				_, err = own.WriteAt(p, int64(off))
			}
			u.check("WriteAt", err)
			copy(u.model[off:], p)
		case 2:
			own.Seek(0, io.SeekStart)
			var got bytes.Buffer
			_, err := own.WithContext(ctx).WriteTo(&got)
			u.check("WriteTo", err)
			if !bytes.HasPrefix(u.model, got.Bytes()) || err == nil && got.Len() != len(u.model) {
				u.t.Errorf("%s: WriteTo has %d wrong bytes, %v", u.name, got.Len(), err)
			}
		case 3:
			own.Seek(0, io.SeekStart)
			next := random(len(u.model))
			n, err := own.WithContext(ctx).ReadFrom(bytes.NewReader(next))
			u.check("ReadFrom", err)
			for err != nil && u.tolerable(err) {
				next = random(len(next))
				_, err = own.WriteAt(next, 0)
			}
			u.check("WriteAt", err)
			if n > int64(len(next)) {
				u.t.Errorf("%s: ReadFrom says %d", u.name, n)
			}
			u.model = next
		case 4:
			own.Seek(0, io.SeekStart)
			p := make([]byte, 1+rand.IntN(100_000))
			at := 0
			for range 8 {
				n, err := own.WithContext(ctx).Read(p)
				if err == io.EOF {
					break
				}
				u.check("Read", err)
				if !bytes.Equal(p[:n], u.model[at:at+n]) {
					u.t.Errorf("%s: Read has wrong bytes", u.name)
				}
				if err != nil {
					break
				}
				at += n
			}
		case 5:
			b, err := u.share.WithContext(ctx).ReadFile(u.name)
			u.check("ReadFile", err)
			if err == nil && !bytes.Equal(b, u.model) {
				u.t.Errorf("%s: ReadFile has wrong bytes", u.name)
			}
			_, err = u.share.WithContext(ctx).Stat(strings.ToUpper(u.name))
			u.check("Stat", err)
		}
		cancel()
	}
	u.check("Close", own.Close())
}
