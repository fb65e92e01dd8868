package smb

import "golang.org/x/sys/unix"

// deallocate makes a hole of n bytes from off.
func (f localFile) deallocate(off, n int64) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	done := c.Control(func(fd uintptr) {
		err = unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if done != nil {
		return done
	}
	return err
}
