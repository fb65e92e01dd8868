package dcerpc

import (
	"context"
	"fmt"
)

// Pipe is an open named pipe in message mode.
type Pipe interface {
	// Transact writes request to the pipe and appends the server's first answer to dst: all of it, or a part
	// when it has more than one fragment. It borrows request.
	Transact(ctx context.Context, request, dst []byte) ([]byte, error)
	// Read appends the next bytes to dst. It appends at least one byte unless it returns an error.
	Read(ctx context.Context, dst []byte) ([]byte, error)
}

// maxAnswer bounds the bytes collected for one answer: some 80,000 shares.
const maxAnswer = 16 << 20

// conn is an association over a pipe.
type conn struct {
	pipe Pipe
	buf  []byte // received and not yet parsed
	call uint32
}

// next returns the next fragment. It aliases c.buf until the next call.
func (c *conn) next(ctx context.Context) (pdu, error) {
	for {
		p, n, err := cutPDU(c.buf)
		if err != nil {
			return pdu{}, err
		}
		if n > 0 {
			c.buf = c.buf[n:]
			if p.call != c.call {
				return pdu{}, fmt.Errorf("%w: answer to another call", ErrMalformed)
			}
			return p, nil
		}
		before := len(c.buf)
		if c.buf, err = c.pipe.Read(ctx, c.buf); err != nil {
			return pdu{}, err
		}
		if len(c.buf) <= before {
			return pdu{}, fmt.Errorf("%w: truncated", ErrMalformed)
		}
	}
}

func (c *conn) send(ctx context.Context, request []byte) (err error) {
	c.buf, err = c.pipe.Transact(ctx, request, c.buf[:0])
	return err
}

func (c *conn) bind(ctx context.Context) error {
	c.call++
	if err := c.send(ctx, encodeBind(c.call)); err != nil {
		return err
	}
	p, err := c.next(ctx)
	if err != nil {
		return err
	}
	return checkBind(p)
}

// invoke makes one call and returns the complete answer's stub data.
func (c *conn) invoke(ctx context.Context, operation uint16, stub []byte) ([]byte, error) {
	c.call++
	if err := c.send(ctx, encodeRequest(c.call, operation, stub)); err != nil {
		return nil, err
	}
	var answer []byte
	for first := true; ; first = false {
		p, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		if p.kind == pduFault {
			if len(p.body) < 12 {
				return nil, fmt.Errorf("%w: call", ErrRefused)
			}
			return nil, fmt.Errorf("%w: call, fault %#x", ErrRefused, le.Uint32(p.body[8:]))
		}
		if p.kind != pduResponse || len(p.body) < 8 || (p.flags&flagFirst != 0) != first {
			return nil, fmt.Errorf("%w: fragment out of place", ErrMalformed)
		}
		if len(answer)+len(p.body) > maxAnswer {
			return nil, fmt.Errorf("%w: answer of more than %d bytes", ErrMalformed, maxAnswer)
		}
		answer = append(answer, p.body[8:]...)
		if p.flags&flagLast != 0 {
			return answer, nil
		}
	}
}
