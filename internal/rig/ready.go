package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// notYet are in what smbclient prints where the server is not ready: on a loaded machine Samba 4.17 now and then answers
// STATUS_NO_MEMORY to a TREE_CONNECT in its first moments. Nor is a lost connection an answer.
var notYet = [][]byte{[]byte("NT_STATUS_NO_MEMORY"), []byte("NT_STATUS_CONNECTION_"), []byte("NT_STATUS_END_OF_FILE"), []byte("NT_STATUS_IO_TIMEOUT")}

// awaitShare has smbclient mount the share until that succeeds. Any other answer than those of notYet shows that the server is ready,
// even if it refuses this user. It is Samba's own client, because this module does not have one. Where it is not installed, nothing
// is waited for.
func (s *Server) awaitShare() error {
	client, err := exec.LookPath("smbclient")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		err := s.tryShare(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-s.done:
			return fmt.Errorf("rig: the server ended: %w\n%s", err, s.Log())
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("rig: the share cannot be mounted: %w\n%s", err, s.Log())
		}
	}
}

// tryShare returns what smbclient prints if the server is not ready.
func (s *Server) tryShare(ctx context.Context, client string) error {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, client, "//"+host+"/"+s.Share, "-p", port, "-U", s.User, "-s", s.conf(), "-c", "exit")
	cmd.Env = append(os.Environ(), "PASSWD="+s.Password, "LC_ALL=C")
	out, _ := cmd.CombinedOutput()
	for _, text := range notYet {
		if bytes.Contains(out, text) {
			return errors.New(string(bytes.TrimSpace(out)))
		}
	}
	return ctx.Err()
}
