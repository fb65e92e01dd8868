package proto

// TransformHeaderSize is the length in bytes of the header of an encrypted message (2.2.41).
const TransformHeaderSize = 52

// Offsets in bytes within the TRANSFORM header (2.2.41).
const (
	TransformSignature  = 4
	TransformNonce      = 20 // 16 bytes; also where the authenticated part of the header begins
	TransformSize       = 36
	TransformFlagsField = 42
	TransformSessionID  = 44
)

// TransformEncrypted is the only value of Flags; 3.0 calls the field EncryptionAlgorithm,
// where 1 is AES-128-CCM (2.2.41).
const TransformEncrypted uint16 = 1

// TransformHeader stands before an encrypted message (2.2.41).
type TransformHeader struct {
	Signature [SignatureSize]byte
	Nonce     [16]byte
	// Size is the length of the message inside, in bytes.
	Size      uint32
	Flags     uint16
	SessionID uint64
}

// Append appends the 52 bytes of h to dst.
func (h *TransformHeader) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, ProtocolTransform)
	dst = append(dst, h.Signature[:]...)
	dst = append(dst, h.Nonce[:]...)
	dst = le.AppendUint32(dst, h.Size)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint16(dst, h.Flags)
	return le.AppendUint64(dst, h.SessionID)
}

// DecodeTransformHeader reads the header of the encrypted message frame, and checks that
// Size is what follows it and Flags says "encrypted" (3.2.5.1.1). An encrypted message has
// at least an SMB2 header inside.
func DecodeTransformHeader(frame []byte) (TransformHeader, error) {
	const name = "TRANSFORM header"
	if len(frame) < TransformHeaderSize {
		return TransformHeader{}, malformed(name, reasonShort)
	}
	if le.Uint32(frame) != ProtocolTransform {
		return TransformHeader{}, malformed(name, "not an encrypted message")
	}
	h := TransformHeader{
		Signature: [SignatureSize]byte(frame[TransformSignature:]),
		Nonce:     [16]byte(frame[TransformNonce:]),
		Size:      le.Uint32(frame[TransformSize:]),
		Flags:     le.Uint16(frame[TransformFlagsField:]),
		SessionID: le.Uint64(frame[TransformSessionID:]),
	}
	if h.Flags != TransformEncrypted {
		return TransformHeader{}, malformed(name, "unknown flags")
	}
	if uint64(h.Size) != uint64(len(frame)-TransformHeaderSize) || h.Size < HeaderSize {
		return TransformHeader{}, malformed(name, "size is not that of the frame")
	}
	return h, nil
}
