package smb2

import (
	"context"
	"errors"
	"os"
	"regexp"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// Session is the session of one user on one server. It is safe for concurrent use.
type Session struct {
	s   *smb.Session
	ctx context.Context
}

// SMB returns the session of package smb.
func (c *Session) SMB() *smb.Session { return c.s }

// WithContext returns the same session under another context. It panics when ctx is nil.
func (c *Session) WithContext(ctx context.Context) *Session {
	if ctx == nil {
		panic("nil context")
	}
	return &Session{s: c.s, ctx: ctx}
}

// Logoff ends the session on the server and closes the connection.
func (c *Session) Logoff() error { return translate(c.s.Logoff(c.ctx)) }

// recently is how long Echo relies on the last message that the server sent.
const recently = 10 * time.Millisecond

// Echo reports whether the server answers: it sends an ECHO and waits for the reply, unless the server has sent
// something within the last 10 ms. Programs call it before they use a session from a pool, as rclone does for each file.
func (c *Session) Echo() error { return translate(c.s.Check(c.ctx, recently)) }

// MountOption changes how a share is mounted.
type MountOption func(*mountOptions)

type mountOptions struct{ mapping MapChars }

// WithMapChars encodes reserved characters in names as mount.cifs's "mapchars" does.
func WithMapChars() MountOption { return func(o *mountOptions) { o.mapping = MapCharsSFU } }

// WithMapPosix encodes reserved characters in names as mount.cifs's "mapposix" does.
func WithMapPosix() MountOption { return func(o *mountOptions) { o.mapping = MapCharsSFM } }

var mountPath = regexp.MustCompile(`^(?:\\\\[^\\/]+\\)?[^\\/]+$`)

var errMountPath = errors.New(`mount path must be a valid share name (\\<server>\<share>)`)

// Mount connects to a share, named `share` or `\\server\share`; the server part is ignored. The share has the
// background context, not the session's.
func (c *Session) Mount(sharename string, opts ...MountOption) (*Share, error) {
	sharename = normPath(sharename)
	if !mountPath.MatchString(sharename) {
		return nil, &os.PathError{Op: "mount", Path: sharename, Err: errMountPath}
	}
	var o mountOptions
	for _, opt := range opts {
		opt(&o)
	}
	share, err := c.s.Mount(c.ctx, sharename)
	if err != nil {
		return nil, translate(err)
	}
	return &Share{s: share, mapping: o.mapping, ctx: context.Background()}, nil
}

// ShareInfo is one share in a server's list (SHARE_INFO_1, MS-SRVS 2.2.4.23).
type ShareInfo struct {
	Name      string // in the form that Mount takes
	Comment   string
	TypeFlags uint32 // as the server sent it: a base type and flags
}

// ShareType is the type of a share's resource (MS-SRVS 2.2.2.4).
type ShareType uint32

// Kinds of shares.
const (
	ShareTypeDiskTree   ShareType = 0
	ShareTypePrintQueue ShareType = 1
	ShareTypeDevice     ShareType = 2
	ShareTypeIPC        ShareType = 3
)

// Flags beside the base type (MS-SRVS 2.2.2.4).
const (
	shareTypeMask      = 0x0fffffff
	shareTypeTemporary = 0x40000000
	shareTypeSpecial   = 0x80000000
)

// String is the type in one lowercase word, "unknown" for values without a constant.
func (t ShareType) String() string {
	switch t {
	case ShareTypeDiskTree:
		return "disktree"
	case ShareTypePrintQueue:
		return "printq"
	case ShareTypeDevice:
		return "device"
	case ShareTypeIPC:
		return "ipc"
	}
	return "unknown"
}

// Type is the base type, without flags.
func (s ShareInfo) Type() ShareType { return ShareType(s.TypeFlags & shareTypeMask) }

// IsSpecial reports whether the share is an administrative one.
func (s ShareInfo) IsSpecial() bool { return s.TypeFlags&shareTypeSpecial != 0 }

// IsTemporary reports whether the share ends when the server is stopped.
func (s ShareInfo) IsTemporary() bool { return s.TypeFlags&shareTypeTemporary != 0 }

// ListShares lists the server's shares.
func (c *Session) ListShares() ([]ShareInfo, error) {
	list, err := c.s.Shares(c.ctx)
	if err != nil {
		return nil, pathError("listShares", "srvsvc", err)
	}
	infos := make([]ShareInfo, len(list))
	for i, s := range list {
		infos[i] = ShareInfo{Name: s.Name, Comment: s.Comment, TypeFlags: uint32(s.Type)}
	}
	return infos, nil
}

// ListSharenames lists the names of the server's shares.
func (c *Session) ListSharenames() ([]string, error) {
	list, err := c.ListShares()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return names, nil
}
