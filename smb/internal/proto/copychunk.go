package proto

// ResumeKey identifies an open file as the source of a COPYCHUNK (2.2.32.3).
type ResumeKey [24]byte

// DecodeResumeKey reads the output of FSCTL_SRV_REQUEST_RESUME_KEY.
func DecodeResumeKey(b []byte) (ResumeKey, error) {
	if len(b) < 24 {
		return ResumeKey{}, malformed("REQUEST_RESUME_KEY", reasonShort)
	}
	return ResumeKey(b[:24]), nil
}

// Chunk is one range to copy (2.2.31.1.1).
type Chunk struct {
	Source, Target uint64 // offsets in bytes
	Length         uint32 // bytes
}

// AppendCopyChunk appends the input of FSCTL_SRV_COPYCHUNK and of FSCTL_SRV_COPYCHUNK_WRITE (2.2.31.1). A
// server returns its limits when a request exceeds them.
func AppendCopyChunk(dst []byte, source ResumeKey, chunks []Chunk) []byte {
	dst = append(dst, source[:]...)
	dst = le.AppendUint32(dst, uint32(len(chunks)))
	dst = le.AppendUint32(dst, 0)
	for _, c := range chunks {
		dst = le.AppendUint64(dst, c.Source)
		dst = le.AppendUint64(dst, c.Target)
		dst = le.AppendUint32(dst, c.Length)
		dst = le.AppendUint32(dst, 0)
	}
	return dst
}

// CopyChunkResult holds the numbers copied; with [StatusInvalidParameter], the server's limits (2.2.32.1).
type CopyChunkResult struct {
	Chunks     uint32 // copied; the limit of one request
	ChunkBytes uint32 // of a partly copied chunk; the limit of one chunk
	TotalBytes uint32 // copied; the limit of one request
}

// DecodeCopyChunk reads the output of FSCTL_SRV_COPYCHUNK.
func DecodeCopyChunk(b []byte) (CopyChunkResult, error) {
	if len(b) < 12 {
		return CopyChunkResult{}, malformed("COPYCHUNK response", reasonShort)
	}
	return CopyChunkResult{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])}, nil
}
