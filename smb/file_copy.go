package smb

import "context"

// CopyRange has the server copy n bytes from offset srcOff of src to offset off of f
// (FSCTL_SRV_COPYCHUNK_WRITE): the data does not pass through the client. It returns how many bytes were
// copied. Both files must be open on the same session; otherwise, and when the server cannot copy, the error
// matches ErrUnsupported. Ranges of one file must not overlap. It borrows src and changes no file's position.
// A file opened with os.O_APPEND is not copied to, which matches ErrUnsupported, too: servers would overwrite what it has.
// Holes of src are copied as zeros: what f has between off and off+n is overwritten, and stays allocated on the
// server's disk. [File.CopyFrom] copies complete files, with their holes.
func (f *File) CopyRange(src *File, srcOff, off, n int64) (int64, error) {
	if srcOff < 0 || off < 0 || n < 0 || srcOff+n < 0 || off+n < 0 {
		return 0, f.wrap("copy", errNegative)
	}
	if f.h.append {
		return 0, f.wrap("copy", errCopyAppended)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	done, err := f.h.copyFrom(ctx, &src.h.openFile, []span{{source: srcOff, target: off, n: n}})
	if done > 0 {
		f.h.grown(off + done)
	}
	return done, f.wrap("copy", err)
}

var errCopyAppended error = &classError{"copy to a file opened with O_APPEND", ErrUnsupported}

// CopyFrom replaces the content of f by that of src, as [Share.Copy] does with files of these names. f must be open for reading
// and writing. Both files must be open on the same session; otherwise, and when the server cannot copy, the error matches
// ErrUnsupported, and the content of f is unchanged. If both are the same file, it is unchanged, and the error matches ErrSameFile
// unless f was not known to have content. CopyFrom borrows src and changes no file's position.
func (f *File) CopyFrom(src *File) (int64, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	n, err := f.copyFrom(ctx, &src.h.openFile)
	return n, f.wrap("copy", err)
}

func (f *File) copyFrom(ctx context.Context, from *openFile) (int64, error) {
	switch {
	case f.h.append:
		return 0, errCopyAppended
	case from.isDir:
		return 0, errIsDirectory
	case from == &f.h.openFile:
		return 0, ErrSameFile
	}
	has, err := f.h.size(ctx) // others may have written to the file since it was opened
	if err != nil {
		return 0, err
	}
	if has == 0 {
		return f.h.replaceBy(ctx, from)
	}
	err = differ(ctx, from, &f.h.openFile)
	if err == errPerhapsSame {
		fi, err := from.stat(ctx)
		if err != nil {
			return 0, err
		}
		// This does not harm the file if it is the source, also if another program writes to it.
		return f.h.takeRanges(ctx, from, []Range{{0, fi.Size()}}, nil, fi.Size())
	}
	if err != nil {
		return 0, err
	}
	return f.h.replaceBy(ctx, from)
}

// ID queries the file's id, which is unique on its volume as long as the file exists; zero where the server
// has none.
func (f *File) ID() (uint64, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	id, err := f.h.fileID(ctx)
	return id, f.wrap("stat", err)
}
