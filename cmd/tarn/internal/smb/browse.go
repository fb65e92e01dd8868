package smb

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"
	"unicode/utf8"

	client "github.com/tarn-go/tarn/smb"
)

// spot is a place on a server with its share mounted.
type spot struct {
	location
	share *client.Share
}

// at finds the share and the path that a URL names.
func (a *app) at(ctx context.Context, arg string) (spot, error) {
	l, err := parseLocation(arg)
	if err != nil {
		return spot{}, err
	}
	share, err := a.share(ctx, l)
	return spot{l, share}, err
}

// expand finds what a URL names: one place, or those whose names match the path.
func (a *app) expand(ctx context.Context, arg string) ([]spot, error) {
	p, err := a.at(ctx, arg)
	if err != nil {
		return nil, err
	}
	if !hasMeta(p.path) {
		return []spot{p}, nil
	}
	if _, err := p.share.Lstat(p.path); err == nil {
		return []spot{p}, nil // "[" may be in a name
	}
	names, err := p.share.Glob(p.path)
	if errors.Is(err, path.ErrBadPattern) {
		return nil, usageError("%s: malformed pattern", p)
	}
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: nothing matches", p)
	}
	var spots []spot
	for _, name := range names {
		l := p.location
		l.path = name
		spots = append(spots, spot{l, p.share})
	}
	return spots, nil
}

// runList lists directories, files, or the shares of a server.
func runList(ctx context.Context, a *app, args []string) error {
	out := bufio.NewWriter(a.std.Out)
	defer out.Flush()
	t := trouble{app: a}
	for _, arg := range args {
		if err := t.report(ctx, a.list(ctx, out, arg)); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return t.result()
}

func (a *app) list(ctx context.Context, out io.Writer, arg string) error {
	l, err := parseLocation(arg)
	if err != nil {
		return err
	}
	if l.share == "" {
		return a.listShares(ctx, out, l)
	}
	places, err := a.expand(ctx, arg)
	if err != nil {
		return err
	}
	for _, p := range places {
		info, err := p.share.Stat(p.path)
		if err != nil {
			return err
		}
		if !info.IsDir() || len(places) > 1 && !a.opts.recursive {
			a.entry(out, p.base(), p, info)
			continue
		}
		prefix := ""
		if len(places) > 1 {
			prefix = p.base() + "/"
		}
		if err := a.listDir(ctx, out, p, prefix, nil); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) listShares(ctx context.Context, out io.Writer, l location) error {
	s, err := a.session(ctx, l)
	if err != nil {
		return err
	}
	shares, failed := s.Shares(ctx) // both, if a name is left out
	for _, share := range shares {
		switch {
		case a.opts.json:
			writeJSON(out, shareObject{share.Name, share.Comment, uint32(share.Type)})
		case a.opts.long:
			fmt.Fprintf(out, "%-24s %s\n", printable(share.Name), printable(share.Comment))
		default:
			fmt.Fprintln(out, printable(share.Name))
		}
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", l, failed)
	}
	return nil
}

// listDir writes the entries of a directory, each with prefix before its name.
func (a *app) listDir(ctx context.Context, out io.Writer, dir spot, prefix string, above ancestors) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, id, failed := dir.share.ReadDirID(dir.path)
	above, err := above.with(id)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		inner := dir
		inner.path = path.Join(dir.path, e.Name())
		a.entry(out, prefix+e.Name(), inner, info)
		if e.IsDir() && a.opts.recursive && plainName(e.Name()) {
			err := a.listDir(ctx, out, inner, prefix+e.Name()+"/", above)
			if errors.Is(err, client.ErrLoop) { // the others are listed
				failed = cmp.Or(failed, err)
			} else if err != nil {
				return err
			}
		}
	}
	return failed
}

// entry writes one file: its name in text, its URL in JSON.
func (a *app) entry(out io.Writer, name string, p spot, info fs.FileInfo) {
	if a.opts.json {
		o := fileObject{URL: p.String(), Type: kind(info.Mode()), Bytes: info.Size(), Modified: info.ModTime().UTC()}
		o.addPOSIX(info)
		writeJSON(out, o)
		return
	}
	if info.IsDir() {
		name += "/"
	}
	if a.opts.long {
		fmt.Fprintf(out, "%s %12d %s ", info.Mode(), info.Size(), info.ModTime().Local().Format("2006-01-02 15:04:05"))
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err := p.share.Readlink(p.path); err == nil {
				name += " -> " + target
			}
		}
	}
	fmt.Fprintln(out, printable(name))
}

// Objects of -json, one a line.
type (
	shareObject struct {
		Share   string `json:"share"`
		Comment string `json:"comment"`
		Type    uint32 `json:"type"` // MS-SRVS 2.2.2.4
	}
	fileObject struct {
		URL      string    `json:"url"`
		Type     string    `json:"type"`
		Bytes    int64     `json:"bytes"`
		Modified time.Time `json:"modified"`

		// With the POSIX extensions.
		Mode  string  `json:"mode,omitempty"` // octal, four digits
		Links uint32  `json:"links,omitempty"`
		UID   *uint32 `json:"uid,omitempty"`
		GID   *uint32 `json:"gid,omitempty"`
	}
)

func (o *fileObject) addPOSIX(info fs.FileInfo) {
	p := posixOf(info)
	if p == nil {
		return
	}
	o.Mode, o.Links = fmt.Sprintf("%04o", p.Mode), p.Links
	if id, ok := p.UID(); ok {
		o.UID = &id
	}
	if id, ok := p.GID(); ok {
		o.GID = &id
	}
}

// posixOf is what the POSIX extensions say of a file; nil without them.
func posixOf(info fs.FileInfo) *client.POSIXStat {
	if st, ok := info.Sys().(*client.FileStat); ok {
		return st.POSIX
	}
	return nil
}

// kind is a file's type in one word.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode.IsRegular():
		return "file"
	case mode.Type() == fs.ModeSymlink:
		return "symlink"
	}
	return "other"
}

// writeJSON writes v on a separate line. Control characters in names that a server chose are escaped, so
// that they cannot control a terminal.
func writeJSON(out io.Writer, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of strings, numbers and times of this package's
	}
	out.Write(append(escapeControls(b), '\n')) // Flush returns the error
}

// escapeControls escapes U+007F to U+009F in JSON, which json.Marshal leaves as they are. Only strings can have them.
func escapeControls(b []byte) []byte {
	out := make([]byte, 0, len(b)+1)
	for _, r := range string(b) {
		if r >= 0x7f && r < 0xa0 {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// printable replaces control characters, with which a server could control a terminal.
func printable(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			out[i] = '?'
		}
	}
	return string(out)
}

// runCat writes files to standard output.
func runCat(ctx context.Context, a *app, args []string) error {
	for _, arg := range args {
		places, err := a.expand(ctx, arg)
		if err != nil {
			return err
		}
		for _, p := range places {
			f, err := p.share.Open(p.path)
			if err != nil {
				return err
			}
			_, err = f.WriteTo(a.std.Out)
			f.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}
