package smb

// CopyRange has the server copy n bytes from offset srcOff of src to offset off of f
// (FSCTL_SRV_COPYCHUNK_WRITE): the data does not pass through the client. It returns how many bytes were
// copied. Both files must be open on the same session; otherwise, and when the server cannot copy, the error
// matches ErrUnsupported. Ranges of one file must not overlap. It borrows src and changes no file's position.
func (f *File) CopyRange(src *File, srcOff, off, n int64) (int64, error) {
	if srcOff < 0 || off < 0 || n < 0 || srcOff+n < 0 || off+n < 0 {
		return 0, f.wrap("copy", errNegative)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	done, err := f.h.copyFrom(ctx, src.h, span{srcOff, off, n})
	if done > 0 {
		f.h.grown(off + done)
	}
	return done, f.wrap("copy", err)
}

// ID queries the file's id, which is unique on its volume as long as the file exists; zero where the server
// has none.
func (f *File) ID() (uint64, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	id, err := f.h.fileID(ctx)
	return id, f.wrap("stat", err)
}
