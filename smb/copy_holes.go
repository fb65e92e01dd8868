package smb

import (
	"context"
	"errors"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// errHolesUnknown is returned when a file changed while its holes were listed.
var errHolesUnknown = errors.New("smb: the file changed while its holes were listed")

// spansFrom returns what of from, whose description is fi, a copy to h consists of: everything, or everything but the holes. In the
// second case h is empty and sparse afterwards. h is another file than from.
func (h *handle) spansFrom(ctx context.Context, from *handle, fi *info) ([]span, error) {
	all := allOf(fi.Size())
	if fi.attributes&proto.AttrSparse == 0 {
		return all, nil // servers report no holes of it, Samba not even those that its file system has
	}
	data, err := from.dataSpans(ctx, fi)
	if err == nil && bytesIn(data) < fi.Size() {
		if err = h.emptySparse(ctx, from, data); err == nil {
			return data, nil
		}
	}
	if err == errHolesUnknown || errors.Is(err, ErrTooMany) || errors.As(err, new(*ResponseError)) {
		err = nil // with everything copied, the result has the same bytes; and if the server cannot copy, that fails, too
	}
	return all, err
}

// dataSpans are the parts of h that are no holes. fi is the file's description before the call. The list is used only if the file has
// not changed since: if it was truncated and written again meanwhile, the list would lack parts that have been data at all
// times since.
func (h *handle) dataSpans(ctx context.Context, fi *info) ([]span, error) {
	list, err := h.allocated(ctx, 0, fi.Size())
	if err != nil {
		return nil, err
	}
	now, err := h.stat(ctx)
	if err != nil {
		return nil, err
	}
	if now.size != fi.size || now.times.LastWrite != fi.times.LastWrite || now.times.Change != fi.times.Change {
		return nil, errHolesUnknown
	}
	spans, begin := make([]span, len(list)), int64(0)
	for i, r := range list {
		spans[i] = span{source: r.Offset, target: r.Offset, n: r.Length, begin: begin}
		begin += r.Length
	}
	return spans, nil
}

// emptySparse makes h sparse and empty, so that what is not written to it is a hole. When the server cannot copy the spans
// of from, the content of h is unchanged.
func (h *handle) emptySparse(ctx context.Context, from *handle, spans []span) error {
	if err := h.ioctl(ctx, proto.FsctlSetSparse, []byte{1}, 0, nil); err != nil {
		return err
	}
	if h.length.Load() == 0 {
		return nil
	}
	if len(spans) > 0 { // to see whether the server can
		first := spans[0]
		first.n = min(first.n, leastCopy)
		if _, err := h.copyFrom(ctx, from, []span{first}); err != nil {
			return err
		}
	}
	return h.setLength(ctx, 0)
}
