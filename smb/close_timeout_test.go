package smb_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestCloseTimeout uses servers that do not answer when a file is closed, a share is disconnected, and a file that could
// not be finished is removed: each call waits for Limits.CloseTimeout, or Limits.OperationTimeout where that is shorter.
func TestCloseTimeout(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	const limit = 3 * time.Second
	t.Run("CloseTimeout", func(t *testing.T) { testCloseTimeout(t, limit, smb.Limits{CloseTimeout: limit}) })
	t.Run("shorter OperationTimeout", func(t *testing.T) {
		testCloseTimeout(t, limit, smb.Limits{CloseTimeout: 2 * limit, OperationTimeout: limit})
	})
	t.Run("longer OperationTimeout", func(t *testing.T) {
		testCloseTimeout(t, limit, smb.Limits{CloseTimeout: limit, OperationTimeout: 2 * limit})
	})
}

func testCloseTimeout(t *testing.T, limit time.Duration, limits smb.Limits) {
	synctest.Test(t, func(t *testing.T) {
		s := &script.Server{Hook: func(_ *script.Conn, m *script.Message) bool {
			return m.Command == proto.CommandClose || m.Command == proto.CommandTreeDisconnect
		}}
		f, err := scripted(t, s, smb.Dialer{Limits: limits})
		must(t, err)
		took := func(name string, use func() error) {
			t.Helper()
			begun := time.Now()
			err := use()
			if d := time.Since(begun); d != limit || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v after %v", name, err, d)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		took("Close", f.Close)
		took("Unmount", f.Share().WithContext(ended).Unmount)
	})
	synctest.Test(t, func(t *testing.T) {
		silent := false
		s := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
			if silent && m.Command == proto.CommandCreate {
				return true
			}
			if m.Command == proto.CommandSetInfo && proto.InfoClass(m.Body[3]) == proto.ClassRename {
				silent = true
				c.Refuse(m, proto.StatusAccessDenied)
				return true
			}
			return false
		}}
		f, err := scripted(t, s, smb.Dialer{Limits: limits})
		must(t, err)
		begun := time.Now()
		if err := f.Share().ReplaceFile("file", []byte("x"), 0o666, time.Time{}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("ReplaceFile: %v", err)
		}
		if d := time.Since(begun); d != limit {
			t.Errorf("ReplaceFile: after %v", d)
		}
	})
}
