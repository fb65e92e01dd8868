package webdav

import (
	"strings"
	"time"

	"golang.org/x/net/webdav"
)

// transferLocks is the lock system for one COPY or MOVE. A name must have no lock then, or one whose token the client has submitted for
// any name (RFC 4918, 7.5). webdav.Handler demands that both names meet one list of conditions, and so refuses to rename a file that
// the client has locked; and if the list is about the destination, it does not look for locks on the source.
type transferLocks struct {
	webdav.LockSystem
	source    string             // of a MOVE, which changes it; "" for COPY
	submitted []webdav.Condition // the tokens in all lists
}

// submitted returns the lock tokens in the lists of an If header, which webdav.Handler checks.
func submitted(header string) (tokens []webdav.Condition) {
	for inList, not := false, false; header != ""; {
		c, rest := header[0], header[1:]
		switch c {
		case '(', ')':
			inList, not = c == '(', false
		case 'N': // of Not
			not = true
		case '[': // an ETag
			_, rest, _ = strings.Cut(rest, "]")
			not = false
		case '<': // a token, or the name that lists are about
			token, after, _ := strings.Cut(rest, ">")
			if inList && !not {
				tokens = append(tokens, webdav.Condition{Token: token})
			}
			rest, not = after, false
		}
		header = rest
	}
	return tokens
}

// Confirm confirms locks on name0, which the conditions are about, or on the source of a MOVE, and on the destination name1. It takes
// the tokens of all lists for conditions.
func (l transferLocks) Confirm(now time.Time, name0, name1 string, _ ...webdav.Condition) (release func(), err error) {
	if l.source != "" {
		name0 = l.source
	}
	release, err = l.LockSystem.Confirm(now, name0, name1, l.submitted...)
	if err != webdav.ErrConfirmationFailed || name0 == "" || name1 == "" {
		return release, err
	}
	for _, name := range [][2]string{{name0, name1}, {name1, name0}} {
		confirmed, err := l.LockSystem.Confirm(now, name[0], "", l.submitted...)
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
