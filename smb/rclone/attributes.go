package rclone

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strconv"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/smb"
)

// attributes are what a copy gets besides data.
type attributes struct {
	accessed, modified, created time.Time      // zero: left to the server
	file                        uint32         // MS-FSCC 2.6; 0: left to the server
	mode                        *iofs.FileMode // permissions; nil: left to the server
	uid, gid                    int            // -1: left to the server
}

// attributesFor are those that a copy of src gets: those of its metadata where rclone preserves that, and its time of modification.
// Owners and permissions are among them with the POSIX extensions.
func attributesFor(ctx context.Context, f *Fs, src fs.ObjectInfo, options []fs.OpenOption) (a attributes, err error) {
	a = attributes{modified: src.ModTime(ctx), uid: -1, gid: -1}
	meta, err := fs.GetMetadataOptions(ctx, f, src, options)
	if err != nil {
		return a, err
	}
	read := func(key string, parse func(text string) error) {
		text, ok := meta[key]
		if !ok || err != nil {
			return
		}
		if failed := parse(text); failed != nil {
			err = fmt.Errorf("%s: metadata %s: %w", Type, key, failed)
		}
	}
	for key, at := range map[string]*time.Time{"mtime": &a.modified, "atime": &a.accessed, "btime": &a.created} {
		read(key, func(text string) (err error) {
			*at, err = time.Parse(time.RFC3339Nano, text)
			return err
		})
	}
	read("attributes", func(text string) error {
		n, err := strconv.ParseUint(text, 16, 32)
		a.file = uint32(n)
		return err
	})
	if !f.opt.POSIX {
		return a, err
	}
	for key, id := range map[string]*int{"uid": &a.uid, "gid": &a.gid} {
		read(key, func(text string) error {
			n, err := strconv.ParseUint(text, 10, 31)
			if err == nil {
				*id = int(n)
			}
			return err
		})
	}
	read("mode", func(text string) error {
		n, err := strconv.ParseUint(text, 8, 32)
		if err == nil {
			mode := iofs.FileMode(n).Perm() // as rclone's local backend, which leaves out the bits that give rights
			a.mode = &mode
		}
		return err
	})
	return a, err
}

// set sets what is to be changed of an open file with that name, and returns its description afterwards.
func (a *attributes) set(file *smb.File, share *smb.Share, name string) (iofs.FileInfo, error) {
	if !a.accessed.IsZero() || !a.modified.IsZero() {
		if err := file.Chtimes(a.accessed, a.modified); err != nil {
			return nil, err
		}
	}
	if !a.created.IsZero() || a.file != 0 {
		if err := file.SetAttributes(a.created, a.file); err != nil {
			return nil, err
		}
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return a.setPOSIX(file, share, name, info)
}

// setNamed is set for the file that was described by before and has the name by now. Another one stays as it is.
func (a *attributes) setNamed(share *smb.Share, name string, before iofs.FileInfo) (info iofs.FileInfo, err error) {
	err = settle(func() error {
		file, err := share.OpenAttributes(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if err = isNamed(file, before); err == nil {
			info, err = a.set(file, share, name)
		}
		return err
	}, never)
	return info, err
}

// besides returns those of a that the file that info describes does not have yet.
func (a attributes) besides(info iofs.FileInfo) attributes {
	unlessEqual := func(t *time.Time, has time.Time) {
		if t.Truncate(timeUnit).Equal(has) {
			*t = time.Time{}
		}
	}
	unlessEqual(&a.modified, info.ModTime())
	if st, ok := info.Sys().(*smb.FileStat); ok {
		unlessEqual(&a.accessed, st.LastAccessTime)
		unlessEqual(&a.created, st.CreationTime)
		if a.file == st.FileAttributes {
			a.file = 0
		}
	}
	p := posixOf(info)
	if p == nil {
		return a
	}
	if id, ok := p.UID(); ok && int64(id) == int64(a.uid) {
		a.uid = -1
	}
	if id, ok := p.GID(); ok && int64(id) == int64(a.gid) {
		a.gid = -1
	}
	if a.mode != nil && *a.mode == info.Mode().Perm() {
		a.mode = nil
	}
	return a
}

// none reports whether a sets nothing.
func (a *attributes) none() bool {
	return a.modified.IsZero() && a.accessed.IsZero() && a.created.IsZero() && a.file == 0 && a.mode == nil && a.uid == -1 && a.gid == -1
}

// timeUnit is the unit of SMB's times.
const timeUnit = 100 * time.Nanosecond

// setPOSIX sets the owner, the group and the permissions of a file with that name, which info describes, as far as they are to be changed, and
// returns its description afterwards. A share without the POSIX extensions has none of them, and few users may set owners: neither is an error.
func (a *attributes) setPOSIX(file *smb.File, share *smb.Share, name string, info iofs.FileInfo) (iofs.FileInfo, error) {
	if a.mode == nil && a.uid == -1 && a.gid == -1 {
		return info, nil
	}
	if posixOf(info) == nil { // a handle that was opened again after a loss has no extensions
		now, err := share.Stat(name)
		if err != nil {
			return info, err
		}
		if posixOf(now) == nil {
			return info, nil
		}
		info = now
	}
	left := a.besides(info)
	owner := left.uid != -1 || left.gid != -1
	if owner {
		err := file.Chown(left.uid, left.gid)
		if errors.Is(err, iofs.ErrPermission) || errors.Is(err, smb.ErrUnsupported) {
			fs.Debugf(nil, "the owners stay as they are: %v", err)
			owner, err = false, nil
		}
		if err != nil {
			return info, err
		}
	}
	if left.mode != nil {
		if err := file.Chmod(*left.mode); err != nil {
			return info, err
		}
	}
	if !owner && left.mode == nil {
		return info, nil
	}
	return file.Stat()
}

// posixOf is what the POSIX extensions say of a file; nil without them.
func posixOf(info iofs.FileInfo) *smb.POSIXStat {
	if st, ok := info.Sys().(*smb.FileStat); ok {
		return st.POSIX
	}
	return nil
}

// Metadata returns times and attributes; with the POSIX extensions also the mode and, as far as they are known, the owner and the group.
func (o *Object) Metadata(context.Context) (fs.Metadata, error) {
	meta := fs.Metadata{"mtime": o.info.ModTime().Format(time.RFC3339Nano)}
	st, ok := o.info.Sys().(*smb.FileStat)
	if !ok {
		return meta, nil
	}
	meta["atime"] = st.LastAccessTime.Format(time.RFC3339Nano)
	meta["btime"] = st.CreationTime.Format(time.RFC3339Nano)
	if !o.link { // rclone's local backend keeps what it does not know in extended attributes, which a link cannot have
		meta["attributes"] = strconv.FormatUint(uint64(st.FileAttributes), 16)
	}
	if st.POSIX == nil {
		return meta, nil
	}
	kind := uint32(0o100000) // a regular file, in st_mode
	if o.link {
		kind = 0o120000
	}
	meta["mode"] = fmt.Sprintf("%07o", kind|st.POSIX.Mode)
	if id, ok := st.POSIX.UID(); ok {
		meta["uid"] = strconv.FormatUint(uint64(id), 10)
	}
	if id, ok := st.POSIX.GID(); ok {
		meta["gid"] = strconv.FormatUint(uint64(id), 10)
	}
	return meta, nil
}
