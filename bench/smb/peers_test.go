// Package bench measures Tarn's SMB client beside go-smb2, through the public API of each.
package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	smb2 "github.com/cloudsoda/go-smb2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/turn"
	"github.com/tarn-go/tarn/smb"
)

// file is implemented by both clients' files.
type file interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Close() error
}

// mount is a share mounted by one of the clients.
type mount struct {
	open func(name string) (file, error)
	stat func(name string) error
	// read opens the file, reads it to its end with io.ReadAll and closes it; write makes or empties it,
	// writes data and closes it, as programs do with an os.File. writeFile does the same by the client's WriteFile.
	read      func(name string) ([]byte, error)
	write     func(name string, data []byte) error
	writeFile func(name string, data []byte) error
	readFile  func(name string) ([]byte, error) // by the client's ReadFile
	list      func(name string) (entries int, err error)
	removeAll func(name string) error
	close     func()
}

// slurp reads all of a file that was opened, and closes it.
func slurp(f io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// store writes data to a file that was created, and closes it.
func store(f io.WriteCloser, err error, data []byte) error {
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// peer is a client under test.
type peer struct {
	name  string
	mount func(b testing.TB, conn net.Conn, user, password, share string) mount
}

// peers are the clients, in the order of this turn.
func peers() []peer { return turn.Order(peer{"tarn", mountTarn}, peer{"go-smb2", mountGoSMB2}) }

func mountTarn(b testing.TB, conn net.Conn, user, password, share string) mount {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	d := smb.Dialer{Initiator: smb.NTLM{User: user, Password: password}, AllowUnsigned: true, Pool: pool, Host: "bench"}
	s, err := d.NewSession(ctx, conn)
	if err != nil {
		b.Fatalf("tarn: %v", err)
	}
	m, err := s.Mount(ctx, share)
	if err != nil {
		b.Fatalf("tarn: %v", err)
	}
	m = m.WithContext(context.Background())
	return mount{
		open:      func(name string) (file, error) { return m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666) },
		stat:      func(name string) error { _, err := m.Stat(name); return err },
		read:      func(name string) ([]byte, error) { f, err := m.Open(name); return slurp(f, err) },
		write:     func(name string, data []byte) error { f, err := m.Create(name); return store(f, err, data) },
		writeFile: func(name string, data []byte) error { return m.WriteFile(name, data, 0o666) },
		readFile:  m.ReadFile,
		list:      func(name string) (int, error) { all, err := m.ReadDir(name); return len(all), err },
		removeAll: func(name string) error { return m.RemoveAll(name) },
		close:     func() { s.Close() },
	}
}

func mountGoSMB2(b testing.TB, conn net.Conn, user, password, share string) mount {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	d := smb2.Dialer{Initiator: &smb2.NTLMInitiator{User: user, Password: password}}
	s, err := d.DialConn(ctx, conn, "bench:445")
	if err != nil {
		b.Fatalf("go-smb2: %v", err)
	}
	m, err := s.WithContext(context.Background()).Mount(share)
	if err != nil {
		b.Fatalf("go-smb2: %v", err)
	}
	return mount{
		open:      func(name string) (file, error) { return m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666) },
		stat:      func(name string) error { _, err := m.Stat(name); return err },
		read:      func(name string) ([]byte, error) { f, err := m.Open(name); return slurp(f, err) },
		write:     func(name string, data []byte) error { f, err := m.Create(name); return store(f, err, data) },
		writeFile: func(name string, data []byte) error { return m.WriteFile(name, data, 0o666) },
		readFile:  m.ReadFile,
		list:      func(name string) (int, error) { all, err := m.ReadDir(name); return len(all), err },
		removeAll: func(name string) error { return m.RemoveAll(name) },
		close:     func() { conn.Close() },
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
