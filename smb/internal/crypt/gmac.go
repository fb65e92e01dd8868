package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// gmacSummer is AES-128-GMAC (3.1.4.1; SP 800-38D): GCM with nothing to encrypt and the
// message as additional data.
//
// The standard library's GCM is the fast implementation, but it needs the data in one piece. A short message
// is copied to scratch. For a long one, copying would cost a fifth of the MAC, so the pieces are hashed one
// by one and combined afterwards: GHASH is linear, the hash of A‖B is hash(A)·H^blocks(B) + hash(B), which is
// a few multiplications.
type gmacSummer struct {
	aead   cipher.AEAD
	block  cipher.Block
	powers [gmacPowers]element // powers[k] is H^(2^k)
	states sync.Pool
}

const (
	gmacPowers  = 28   // of blocks: messages up to 4 GiB
	gmacGather  = 8192 // bytes up to which a message is copied into one piece
	gmacShortly = 256  // bytes below which a piece is hashed by this package, not by the library
)

type gmacState struct {
	nonce   [12]byte
	counter [blockSize]byte
	tag     [blockSize]byte
	block   [blockSize]byte // a block that straddles pieces
	scratch [gmacGather]byte

	mask  element // E(nonce‖1), which the library adds to every hash
	acc   element // hash of the blocks so far, times H
	blank bool    // no blocks so far
	n     int     // of block
}

func newGMAC(key []byte) (*gmacSummer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, ErrKey
	}
	s := &gmacSummer{block: block}
	if s.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	var h [blockSize]byte
	block.Encrypt(h[:], h[:])
	s.powers[0] = loadElement(h[:])
	for k := 1; k < gmacPowers; k++ {
		s.powers[k] = s.powers[k-1].mul(s.powers[k-1])
	}
	s.states.New = func() any { return new(gmacState) }
	return s, nil
}

func (s *gmacSummer) sum(head []byte, rest [][]byte) mac {
	st := s.states.Get().(*gmacState)
	defer s.states.Put(st)
	st.setNonce(head)
	total := len(head)
	for _, p := range rest {
		total += len(p)
	}
	if total == len(head) {
		return mac(s.aead.Seal(st.tag[:0], st.nonce[:], nil, head))
	}
	if total <= gmacGather {
		all := append(st.scratch[:0], head...)
		for _, p := range rest {
			all = append(all, p...)
		}
		return mac(s.aead.Seal(st.tag[:0], st.nonce[:], nil, all))
	}
	return s.sumPieces(st, head, rest, total)
}

// setNonce makes the nonce out of the header: the message id, whether a server sent it,
// whether it is a CANCEL (3.1.4.1).
func (st *gmacState) setNonce(head []byte) {
	copy(st.nonce[:8], head[proto.OffsetMessageID:])
	role := binary.LittleEndian.Uint32(head[proto.OffsetFlags:]) & uint32(proto.FlagResponse)
	if binary.LittleEndian.Uint16(head[proto.OffsetCommand:]) == uint16(proto.CommandCancel) {
		role |= 2
	}
	binary.LittleEndian.PutUint32(st.nonce[8:], role)
}

func (s *gmacSummer) sumPieces(st *gmacState, head []byte, rest [][]byte, total int) mac {
	copy(st.counter[:], st.nonce[:])
	binary.BigEndian.PutUint32(st.counter[12:], 1)
	s.block.Encrypt(st.tag[:], st.counter[:])
	st.mask = loadElement(st.tag[:])
	st.acc, st.blank, st.n = element{}, true, 0
	s.write(st, head)
	for _, p := range rest {
		s.write(st, p)
	}
	if st.n > 0 {
		clear(st.block[st.n:])
		s.blocks(st, st.block[:])
	}
	st.acc.add(s.length(total)).add(st.mask).store(st.tag[:])
	return st.tag
}

// length is the contribution of GHASH's last block, which holds the length in bits.
func (s *gmacSummer) length(n int) element {
	return element{hi: uint64(n) * 8}.mul(s.powers[0])
}

func (s *gmacSummer) write(st *gmacState, p []byte) {
	if st.n > 0 {
		c := copy(st.block[st.n:], p)
		p = p[c:]
		if st.n += c; st.n < blockSize {
			return
		}
		s.blocks(st, st.block[:])
		st.n = 0
	}
	whole := len(p) &^ (blockSize - 1)
	s.blocks(st, p[:whole])
	st.n = copy(st.block[:], p[whole:])
}

// blocks adds p, a multiple of 16 bytes.
func (s *gmacSummer) blocks(st *gmacState, p []byte) {
	if len(p) == 0 {
		return
	}
	var sum element
	if len(p) < gmacShortly {
		for b := p; len(b) > 0; b = b[blockSize:] {
			sum = sum.add(loadElement(b)).mul(s.powers[0])
		}
		sum = sum.mul(s.powers[0])
	} else {
		s.aead.Seal(st.tag[:0], st.nonce[:], nil, p)
		sum = loadElement(st.tag[:]).add(st.mask).add(s.length(len(p)))
	}
	if !st.blank {
		// the number of blocks is public, so branching on its bits reveals nothing
		for n := uint(len(p) / blockSize); n != 0; n &= n - 1 {
			st.acc = st.acc.mul(s.powers[bits.TrailingZeros(n)])
		}
	}
	st.acc, st.blank = st.acc.add(sum), false
}
