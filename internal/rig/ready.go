package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarn-go/tarn/smb"
)

const noMemory = smb.Status(0xC0000017) // STATUS_NO_MEMORY

// awaitShare mounts the share until that succeeds. On a loaded machine Samba 4.17 now and then
// answers STATUS_NO_MEMORY to a TREE_CONNECT in its first moments. Any other answer shows that the
// server is ready, even if it refuses this user.
func (s *Server) awaitShare() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		err := s.tryShare(ctx)
		// Nor is a lost connection an answer.
		if !errors.Is(err, noMemory) && !errors.Is(err, smb.ErrConnLost) {
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

func (s *Server) tryShare(ctx context.Context) error {
	d := smb.Dialer{Initiator: smb.NTLM{User: s.User, Password: s.Password}, NoReconnect: true}
	sess, err := d.Dial(ctx, s.Addr)
	if err != nil {
		return err
	}
	defer sess.Close()
	_, err = sess.Mount(ctx, s.Share)
	return err
}
