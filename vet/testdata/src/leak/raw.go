package leak

import "github.com/tarn-go/tarn"

type rawStream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

func rawReceived(s rawStream) (int, error) {
	var m tarn.Buffer
	if err := s.RecvMsg(&m); err != nil { // want `leak: m`
		return 0, err
	}
	return m.Len(), nil
}

func rawReceivedChain(s rawStream) (int, error) {
	var m tarn.Chain
	if err := s.RecvMsg(&m); err != nil { // want `leak: m`
		return 0, err
	}
	return m.Len(), nil
}

func rawReceivedAndFreed(s rawStream) (int, error) {
	var m tarn.Buffer
	if err := s.RecvMsg(&m); err != nil {
		return 0, err
	}
	defer m.Free()
	return m.Len(), nil
}

func rawReceivedForCaller(s rawStream) (m tarn.Buffer, err error) {
	err = s.RecvMsg(&m)
	return m, err
}
