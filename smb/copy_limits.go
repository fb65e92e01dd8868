package smb

import (
	"errors"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// copyLimits is how much one COPYCHUNK may have.
type copyLimits struct {
	chunks int // number
	chunk  int // bytes of each
	total  int // bytes of all
}

// leastCopy is the shortest chunk, in bytes, for which a server's limits are used. With fewer bytes a request the copy would take longer
// than reading and writing.
const leastCopy = 4 << 10

// mostCopied are the limits for a server that states none.
func mostCopied() copyLimits { return copyLimits{chunkCount, chunkBytes, chunkCount * chunkBytes} }

// copyLimits are those of the next COPYCHUNK on t: the server's, if it has stated them, and never more than chunkCount and chunkBytes.
func (t *tree) copyLimits() (l copyLimits, stated bool) {
	if l := t.copies.Load(); l != nil {
		return *l, true
	}
	return mostCopied(), false
}

// copyLimitsOf decodes the limits from the refusal of a COPYCHUNK (MS-SMB2 3.3.5.15.6); nil when there are none, or none that can be used.
func copyLimitsOf(r *conn.Refusal) *copyLimits {
	if r.Command != proto.CommandIoctl || r.Status != proto.StatusInvalidParameter {
		return nil
	}
	answer, err := proto.DecodeIoctlResponse(r.Message)
	if err != nil {
		return nil
	}
	c, err := proto.DecodeCopyChunk(answer.Output)
	if err != nil || c.Chunks == 0 || c.ChunkBytes < leastCopy || c.TotalBytes < leastCopy {
		return nil
	}
	l := copyLimits{int(min(c.Chunks, chunkCount)), int(min(c.ChunkBytes, chunkBytes)), int(min(c.TotalBytes, chunkCount*chunkBytes))}
	l.chunk = min(l.chunk, l.total)
	l.total = min(l.total, l.chunks*l.chunk)
	return &l
}

// takeLimits takes the server's limits from err, if that is its refusal of a request that exceeds them (3.2.5.14.3), and reports whether it
// has. A tree takes them once: a request that is refused although it has kept to them fails.
func (c *serverCopy) takeLimits(t *tree, err error) bool {
	var refused *ResponseError
	if c.limited || !errors.As(err, &refused) || refused.copyLimits == nil {
		return false
	}
	t.copies.CompareAndSwap(nil, refused.copyLimits)
	return true
}
