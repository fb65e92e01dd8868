package webdav

import (
	"time"

	"golang.org/x/net/webdav"
)

// transferLocks is the lock system for one COPY or MOVE. The condition of a request may be about a lock on one name alone; the other name
// must have no lock then. webdav.Handler demands that both names meet the condition, and so refuses to rename a file that the client
// has locked; and if the condition is about the destination, it does not look for locks on the source.
type transferLocks struct {
	webdav.LockSystem
	source string // of a MOVE, which changes it; "" for COPY
}

// Confirm confirms locks on name0, which the condition is about, or on the source of a MOVE, and on the destination name1.
func (l transferLocks) Confirm(now time.Time, name0, name1 string, conditions ...webdav.Condition) (release func(), err error) {
	if l.source != "" {
		name0 = l.source
	}
	release, err = l.LockSystem.Confirm(now, name0, name1, conditions...)
	if err != webdav.ErrConfirmationFailed || name0 == "" || name1 == "" {
		return release, err
	}
	for _, name := range [][2]string{{name0, name1}, {name1, name0}} {
		confirmed, err := l.LockSystem.Confirm(now, name[0], "", conditions...)
		if err != nil {
			continue
		}
		token, err := l.Create(now, webdav.LockDetails{Root: name[1], Duration: -1, ZeroDepth: true})
		if err == nil {
			return func() {
				confirmed()
				l.Unlock(now, token)
			}, nil
		}
		confirmed()
	}
	return nil, webdav.ErrConfirmationFailed
}
