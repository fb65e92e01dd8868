package use

import "github.com/tarn-go/tarn"

type rawStream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

func rawSentBuffer(s rawStream, p *tarn.Pool) {
	b := p.Get(10)
	c := b
	s.SendMsg(&b)
	c.Free() // want `use after free: SendMsg took ownership of b at line 13`
}

func rawSentAfterFree(s rawStream, p *tarn.Pool) error {
	b := p.Get(10)
	b.Free()
	return s.SendMsg(&b) // want `use after free: b`
}

func rawBytesAfterSend(s rawStream, p *tarn.Pool) int {
	b := p.Get(10)
	data := b.Bytes()
	s.SendMsg(&b)
	return len(string(data)) // want `use`
}

func rawSent(s rawStream, p *tarn.Pool) error {
	b := p.Get(10)
	return s.SendMsg(&b)
}

func rawForwarded(from, to rawStream) error {
	for {
		var m tarn.Buffer
		if err := from.RecvMsg(&m); err != nil {
			return err
		}
		if err := to.SendMsg(&m); err != nil {
			return err
		}
	}
}

func rawForwardedChain(from, to rawStream) error {
	var m tarn.Chain
	if err := from.RecvMsg(&m); err != nil {
		return err
	}
	return to.SendMsg(&m)
}
