package h2

import "testing"

func TestConfig(t *testing.T) {
	for _, c := range []Config{{MaxFrameSize: 100}, {MaxRead: 1}, {MaxRead: 2 << 20}, {MaxFrameSize: 1 << 24}, {Window: -1}, {Window: 100, MaxWindow: 50},
		{ConnWindow: 100}, {MaxStreams: -1}, {MaxHeaderList: 1 << 30}, {Limits: Limits{Resets: -1}}} {
		if _, err := NewServer(nil, nil, c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	for _, c := range []Config{{Window: maxWindow}, {MaxWindow: maxWindow}, {ConnWindow: maxWindow}, {MaxStreams: maxWindow}, {MaxHeaderList: 16 << 20}} {
		if _, err := NewServer(nil, nil, c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
