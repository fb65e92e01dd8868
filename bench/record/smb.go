package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/sizing"
	"github.com/tarn-go/tarn/smb"
)

// runSMB records a copy of files of the Go source tree to an SMB share and back, each file listed and
// compared, on the server that SMB_ADDR, SMB_USER, SMB_PASSWORD and SMB_SHARE name. It makes a pool of
// its own: a client also uses functions of its pool that a lender does not have.
func runSMB(r *recorder, gets int) (note string, err error) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "record-smb", Observe: r.observe})
	if err != nil {
		return "", err
	}
	dialer := smb.Dialer{Initiator: smb.NTLM{User: os.Getenv("SMB_USER"), Password: os.Getenv("SMB_PASSWORD")}, Pool: pool}
	session, err := dialer.Dial(context.Background(), os.Getenv("SMB_ADDR"))
	if err != nil {
		return "", err
	}
	defer session.Close()
	share, err := session.Mount(context.Background(), os.Getenv("SMB_SHARE"))
	if err != nil {
		return "", err
	}
	names, err := goSources()
	if err != nil {
		return "", err
	}
	var copies atomic.Uint64
	err = drive(r, gets, func(rng *rand.Rand) error {
		return copyThereAndBack(share, fmt.Sprintf("record-%d", copies.Add(1)), names[rng.IntN(len(names))])
	})
	return "smb copy of the Go source tree to an encrypted share and back: list, write, stat, read, remove; 8 at once", err
}

// goSources lists the files of the Go source tree.
func goSources() (names []string, err error) {
	root, err := sourceTree()
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

func copyThereAndBack(share *smb.Share, dir, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := dir + "/" + filepath.Base(file)
	if err := share.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := share.WriteFile(name, data, 0o644); err != nil {
		return err
	}
	if _, err := share.ReadDir(dir); err != nil {
		return err
	}
	back, err := share.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, back) {
		return fmt.Errorf("%s came back changed", file)
	}
	return share.RemoveAll(dir)
}

// observe records a get or a free that the pool reports.
func (r *recorder) observe(l tarn.Loan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Size > 0 {
		r.noteCycles()
		r.events = append(r.events, sizing.Event{Op: sizing.OpGet, Arg: l.Size})
		r.loans[l.Number] = r.gets
		r.gets++
		return
	}
	if get, ok := r.loans[l.Number]; ok {
		delete(r.loans, l.Number)
		r.events = append(r.events, sizing.Event{Op: sizing.OpFree, Arg: get})
	}
}
