package dcerpc

import (
	"context"
	"fmt"
)

// Pipe is an open named pipe in message mode.
type Pipe interface {
	// Transact writes request to the pipe and appends what the server answers at first to
	// dst: all of it or, when it has more than one fragment, a part. It borrows request.
	Transact(ctx context.Context, request, dst []byte) ([]byte, error)
	// Read appends what comes next to dst. It never returns dst unchanged without an error.
	Read(ctx context.Context, dst []byte) ([]byte, error)
}

// maxAnswer bounds, in bytes, what is gathered of one answer: some 80,000 shares.
const maxAnswer = 16 << 20

// conn is a conversation over a pipe.
type conn struct {
	pipe Pipe
	buf  []byte // received and not yet cut
	call uint32
}

// next is the next fragment. It aliases c.buf until the next call.
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
			return pdu{}, fmt.Errorf("%w: cut short", ErrMalformed)
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

// invoke makes one call and returns the whole answer's stub data.
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
