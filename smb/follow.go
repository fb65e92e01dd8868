package smb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// maxLinks bounds how many links are followed for one name.
const maxLinks = 40

// stoppedLink is a symbolic link that the client has to follow (MS-SMB2 2.2.2.2.1).
type stoppedLink struct {
	target   string
	relative bool
	behind   int // UTF-16 units of the name behind the link
}

// stoppedLinkOf decodes the link from a refusal; nil when there is none.
func stoppedLinkOf(refusal *conn.Refusal) *stoppedLink {
	if refusal.Status != proto.StatusStoppedOnSymlink {
		return nil
	}
	r, err := proto.DecodeErrorResponse(refusal.Message, refusal.Status, refusal.Dialect)
	if err != nil || !r.HasSymlink {
		return nil
	}
	return &stoppedLink{
		target:   proto.DecodeUTF16(r.Symlink.Substitute),
		relative: r.Symlink.Flags&proto.SymlinkRelative != 0,
		behind:   int(r.Symlink.Unparsed) / 2,
	}
}

// follow runs op on remote, and again on the target of each link: a symbolic link that the client has to
// follow, or a DFS link.
func (s *Share) follow(ctx context.Context, t view, remote string, op func(ctx context.Context, t view, remote string) error) error {
	for range maxLinks {
		err := op(ctx, t, remote)
		if final, ok := errors.AsType[*finalError](err); ok {
			return final.err
		}
		refused, ok := errors.AsType[*ResponseError](err)
		if !ok {
			return err
		}
		switch {
		case refused.link != nil:
			next, e := refused.link.apply(t.with.host, t.m.name, remote)
			if e != nil {
				return fmt.Errorf("%w: %w", err, e)
			}
			remote = next
		case refused.Status == Status(proto.StatusPathNotCovered):
			t2, next, e := t.m.referred(ctx, t.tree, remote)
			if e != nil {
				return fmt.Errorf("%w: %w", err, e)
			}
			t.tree, remote = t2, next
		default:
			return err
		}
	}
	return errLinks
}

// finalError is an error for which follow does not look at links: it does not concern the name.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

// redirects reports whether the server refused because a part of the name is a link.
func (e *ResponseError) redirects() bool {
	return e.link != nil || e.Status == Status(proto.StatusStoppedOnSymlink) || e.Status == Status(proto.StatusPathNotCovered)
}

// apply returns the name that results when the link in remote is followed.
func (d *stoppedLink) apply(host, share, remote string) (string, error) {
	whole := utf16Units(remote)
	if d.behind > whole {
		return "", conn.ProtocolError("a link behind the end of the name")
	}
	front, rest := cutUnits(remote, whole-d.behind)
	target := strings.ReplaceAll(d.target, "/", `\`)
	if d.relative {
		dir, _ := split(strings.TrimRight(front, `\`))
		target = join(dir, target)
	} else {
		// An absolute target must be on this share.
		target = strings.TrimPrefix(target, `\??\`)
		target = strings.TrimPrefix(target, `UNC\`)
		own := strings.TrimLeft(target, `\`)
		prefix := strings.ToLower(host + `\` + share + `\`)
		if !strings.HasPrefix(strings.ToLower(own), prefix) {
			return "", fmt.Errorf("the link leads outside the share, to %q", d.target)
		}
		target = own[len(prefix):]
	}
	name, err := remoteName(target + `\` + rest)
	if err != nil {
		err = fmt.Errorf("the link leads to %q: %w", d.target, err)
	}
	return name, err
}

// cutUnits splits s after n UTF-16 units.
func cutUnits(s string, n int) (string, string) {
	for i, r := range s {
		if n <= 0 {
			return s[:i], s[i:]
		}
		if n--; r > 0xffff {
			n--
		}
	}
	return s, ""
}

// Readlink returns the target of the named symbolic link, with "/" between components. One on a share, such as the link's own, has the
// form "//server/share/path". Symlink makes an equal link of it.
func (s *Share) Readlink(name string) (string, error) {
	var target string
	req := proto.IoctlRequest{Code: proto.FsctlGetReparsePoint, Output: 16 << 10}
	err := s.run(operation{kind: opDescribe, name: name, do: func(ctx context.Context, t view, remote string) error {
		create := statRequest(remote)
		create.Options = proto.OptionOpenReparsePoint
		return t.chain(ctx, create, func(calls []*conn.Call) error {
			r, err := proto.DecodeIoctlResponse(calls[1].Message())
			if err != nil {
				return t.Malformed(err)
			}
			p, err := proto.DecodeReparse(r.Output)
			if err != nil {
				return t.Malformed(err)
			}
			if p.Tag != proto.ReparseTagSymlink && p.Tag != proto.ReparseTagMountPoint {
				return errNotLink
			}
			stored := proto.DecodeUTF16(p.Substitute)
			if !isLinkTarget(stored) {
				return fmt.Errorf("%w: the link leads to %q", ErrName, stored)
			}
			target = s.m.s.cfg.Names.linkTarget(stored)
			return nil
		}, t.ioctlStep(req))
	}})
	return target, pathError("readlink", name, err)
}

// isLinkTarget reports whether a link to the name leads to what it says: UTF-16 and UTF-8 can express it.
func isLinkTarget(name string) bool {
	return utf8.ValidString(name) && strings.IndexByte(name, 0) < 0
}

var errNotLink = errors.New("not a symbolic link")

// linkTarget is the target of a symbolic link as Readlink returns it, from the one that the server stores.
func (m NameMapping) linkTarget(stored string) string {
	if rest, ok := strings.CutPrefix(stored, `\??\UNC\`); ok {
		stored = `\\` + rest
	}
	parts := strings.Split(strings.TrimPrefix(stored, `\??\`), `\`)
	for i, part := range parts {
		parts[i] = m.local(part)
	}
	return strings.Join(parts, "/")
}

// Symlink makes newname a symbolic link to oldname. It is relative to the link's directory, unless it begins with one separator, as a
// path on this share, or with two, as "//server/share/path". The server may refuse it, as Samba 4.17 does: the error matches
// ErrUnsupported. When the context ends while the server makes the link, the link is removed as soon as the server answers, which may be
// after the return.
func (s *Share) Symlink(oldname, newname string) error {
	return linkError("symlink", oldname, newname, s.symlink(oldname, newname))
}

// SymlinkTimes is [Share.Symlink] of a link with the times of the last access and the last write that [Share.Lchtimes] would set, in the
// same round trip: they are those of the link that was made, also if another client gives its name to another file.
func (s *Share) SymlinkTimes(oldname, newname string, atime, mtime time.Time) error {
	if !storable(atime) || !storable(mtime) {
		return linkError("symlink", oldname, newname, errTooEarly)
	}
	return linkError("symlink", oldname, newname, s.symlink(oldname, newname, setStep(proto.ClassBasic, timesInfo(atime, mtime))))
}

// symlink makes a symbolic link, and does the further steps with it.
func (s *Share) symlink(oldname, newname string, further ...step) error {
	if !isLinkTarget(oldname) {
		return ErrName
	}
	host := s.m.s.using().host
	target, flags := s.m.s.cfg.Names.wire(strings.ReplaceAll(oldname, "/", `\`)), proto.SymlinkRelative
	if rest, ok := strings.CutPrefix(target, `\\`); ok {
		target, flags = `\??\UNC\`+rest, 0
	} else if strings.HasPrefix(target, `\`) {
		target, flags = `\??\UNC\`+host+`\`+s.m.name+target, 0
	}
	remote, err := s.remote(newname)
	if err != nil {
		return err
	}
	// A link to a directory is a directory on Windows, and not with the POSIX extensions.
	options := proto.OptionOpenReparsePoint
	link := stoppedLink{target: target, relative: flags != 0}
	if leads, err := link.apply(host, s.m.name, remote); err == nil {
		if fi, err := s.stat(leads, 0); err == nil && fi.IsDir() {
			options |= proto.OptionDirectory
		}
	}
	ioctl := proto.IoctlRequest{
		Code: proto.FsctlSetReparsePoint, Input: proto.AppendSymlink(nil, target, flags),
	}
	err = s.run(operation{kind: opSymlink, name: newname, do: func(ctx context.Context, t view, remote string) error {
		create := statRequest(remote)
		create.Access = proto.AccessWriteAttributes | proto.AccessWriteData | proto.AccessDelete | proto.AccessSynchronize
		create.Disposition, create.Options, create.Contexts.Mode = proto.DispositionCreate, options, 0o777
		if t.posix {
			create.Options &^= proto.OptionDirectory
		}
		steps := append([]step{t.ioctlStep(ioctl)}, further...)
		return t.chain(ctx, create, nil, steps...) // which removes a file that cannot be made a link
	}})
	if hasStatus(err, proto.StatusNotAReparsePoint) { // Samba answers with this status when it has no reparse points
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
