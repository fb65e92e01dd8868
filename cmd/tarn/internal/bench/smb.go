package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

// leftOut is the error of a section that cannot be run here. The report gives the reason, and the command does not fail.
type leftOut string

func (l leftOut) Error() string { return string(l) }

// smbFile is the file that is read, and its length.
const (
	smbFile   = "tarn-bench"
	smbLength = 64 << 20
)

// runSMB reads a file from a Samba server on loopback, in the server's page cache, with messages in
// the clear, signed, and encrypted, with Tarn's client and with Samba's where that is installed.
func runSMB(ctx context.Context, s *session) ([]Case, error) {
	if !rig.Available() {
		return nil, leftOut("Left out: smbd or pdbedit is not installed (Debian: samba, samba-common-bin).")
	}
	var cases []Case
	modes := rig.Modes()
	if !s.allCases {
		modes = modes[:1]
	}
	for _, mode := range modes {
		c, err := runSMBMode(ctx, s, mode)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mode.Name(), err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// download is a contestant: read reads the whole file and returns bytes a second.
type download struct {
	name string
	kind Kind
	read func(context.Context) (float64, error)
}

func runSMBMode(ctx context.Context, s *session, mode rig.Mode) (Case, error) {
	c := Case{
		Title:   fmt.Sprintf("Read a file of %s from Samba, %s", sizeName(smbLength), mode.Name()),
		Metrics: []Metric{{"rate", "bytes/s", Bytes, Higher}},
	}
	server, err := rig.New(rig.Config{Mode: mode})
	if err != nil {
		return c, err
	}
	defer server.Stop()
	if err := makeFile(server, smbFile, smbLength); err != nil {
		return c, err
	}
	file, closeFile, err := openSMB(ctx, server)
	if err != nil {
		return c, err
	}
	defer closeFile()
	buf := make([]byte, 1<<20)
	contestants := []download{
		{"tarn, WriteTo", Tarn, func(context.Context) (float64, error) { return readAll(file) }},
		{"tarn, ReadAt 1 MiB", Tarn, func(context.Context) (float64, error) { return readPieces(file, buf) }},
	}
	if client, ok := findSMBClient(); ok {
		contestants = append(contestants, download{"smbclient get", Peer, func(ctx context.Context) (float64, error) {
			return client.get(ctx, server, smbFile)
		}})
	} else {
		c.Note = "smbclient, to compare with, is not installed."
	}
	return c, s.runDownloads(ctx, &c, contestants)
}

// runDownloads measures the contestants alternately and fills in the rows of c.
func (s *session) runDownloads(ctx context.Context, c *Case, contestants []download) error {
	turns := make([][]float64, len(contestants))
	for round := range s.loadRounds + 1 {
		for i, d := range contestants {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.progress.step("%s: %s (%d of %d)", c.Title, d.name, round, s.loadRounds)
			rate, err := d.read(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
			if round > 0 { // the first was to warm up
				turns[i] = append(turns[i], rate)
			}
		}
	}
	for i, d := range contestants {
		c.Rows = append(c.Rows, Row{Name: d.name, Kind: d.kind, Turns: turns[i], Values: map[string]float64{"rate": median(turns[i])}})
	}
	c.compare()
	return nil
}

// openSMB logs in and opens the file; the function it returns undoes that.
func openSMB(ctx context.Context, server *rig.Server) (*smb.File, func(), error) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "tarn bench smb"})
	if err != nil {
		return nil, nil, err
	}
	d := smb.Dialer{Initiator: smb.NTLM{User: server.User, Password: server.Password}, AllowUnsigned: true, Pool: pool}
	session, err := d.Dial(ctx, server.Addr)
	if err != nil {
		return nil, nil, err
	}
	share, err := session.Mount(ctx, server.Share)
	if err == nil {
		var f *smb.File
		if f, err = share.Open(smbFile); err == nil {
			return f, func() { f.Close(); session.Close() }, nil
		}
	}
	session.Close()
	return nil, nil, err
}

func readAll(f *smb.File) (float64, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	start := time.Now()
	n, err := f.WriteTo(io.Discard)
	return rateOf(n, start, err)
}

func readPieces(f *smb.File, buf []byte) (float64, error) {
	start := time.Now()
	off := int64(0)
	for off < smbLength {
		n, err := f.ReadAt(buf, off)
		off += int64(n)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if n == 0 {
			break
		}
	}
	return rateOf(off, start, nil)
}

func rateOf(n int64, start time.Time, err error) (float64, error) {
	if err == nil && n != smbLength {
		err = fmt.Errorf("%d bytes of %d arrived", n, smbLength)
	}
	return float64(n) / time.Since(start).Seconds(), err
}

// makeFile writes a file to the disk of the server, readable for the server's users.
func makeFile(s *rig.Server, name string, length int) error {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(i * 7)
	}
	path := filepath.Join(s.Dir, name)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		return err
	}
	return os.Chmod(path, 0o666) // whatever the umask was
}
