// Package bench measures Tarn's SMB client beside go-smb2, through the public API of each.
package bench

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	smb2 "github.com/cloudsoda/go-smb2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb"
)

// file is what both clients' files can do.
type file interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Close() error
}

// mount is a share mounted by one of the clients.
type mount struct {
	open  func(name string) (file, error)
	stat  func(name string) error
	close func()
}

// peer is a client under test.
type peer struct {
	name  string
	mount func(b testing.TB, conn net.Conn, user, password, share string) mount
}

func peers() []peer { return []peer{{"tarn", mountTarn}, {"go-smb2", mountGoSMB2}} }

func mountTarn(b testing.TB, conn net.Conn, user, password, share string) mount {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	d := smb.Dialer{Initiator: smb.NTLM{User: user, Password: password}, Pool: pool, Host: "bench"}
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
		open:  func(name string) (file, error) { return m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666) },
		stat:  func(name string) error { _, err := m.Stat(name); return err },
		close: func() { s.Close() },
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
		open:  func(name string) (file, error) { return m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666) },
		stat:  func(name string) error { _, err := m.Stat(name); return err },
		close: func() { conn.Close() },
	}
}
