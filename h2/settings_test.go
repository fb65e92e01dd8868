package h2

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/net/http2"
)

// TestSettingsOfImpossibleValues: values that a specification prohibits are errors of the connection (RFC 9113 section 6.5.2,
// RFC 8441 section 3, RFC 9218 section 2.1), and the last permitted value is no error.
func TestSettingsOfImpossibleValues(t *testing.T) {
	type side string
	const both, ofClients, ofServers side = "", "client's", "server's"
	for _, c := range []struct {
		id        settingID
		permitted uint32
		bad       uint32
		sender    side
		code      Code
	}{
		{setEnablePush, 1, 2, ofClients, ProtocolError},
		{setEnablePush, 0, 1, ofServers, ProtocolError},
		{setWindow, maxWindow, maxWindow + 1, both, FlowControlError},
		{setMaxFrame, minMaxFrame, minMaxFrame - 1, both, ProtocolError},
		{setMaxFrame, maxMaxFrame, maxMaxFrame + 1, both, ProtocolError},
		{setExtendedConnect, 1, 2, both, ProtocolError},
		{setNoPriorities, 1, 2, both, ProtocolError},
	} {
		for _, sender := range []side{ofClients, ofServers} {
			if c.sender != both && c.sender != sender {
				continue
			}
			t.Run(fmt.Sprintf("%s setting %d of %d", sender, c.id, c.bad), func(t *testing.T) {
				var r *raw
				var end *Conn
				if sender == ofClients {
					r, end, _ = rawServer(t, Config{}, nil)
				} else {
					r, end, _ = rawClient(t, Config{})
				}
				r.fr.WriteSettings(http2.Setting{ID: http2.SettingID(c.id), Val: c.permitted})
				r.fr.WritePing(false, [8]byte{1})
				r.wait("the answer to PING", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
				r.fr.WriteSettings(http2.Setting{ID: http2.SettingID(c.id), Val: c.bad})
				r.wantEnd(end, c.code)
			})
		}
	}
}

// TestPushPromise: a client announces that it permits no push, and PUSH_PROMISE ends the connection (RFC 9113 section 8.4).
func TestPushPromise(t *testing.T) {
	r, c, _ := rawClient(t, Config{})
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if err := r.fr.WritePushPromise(http2.PushPromiseParam{StreamID: s.ID(), PromiseID: 2, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	r.wantGoAway(ProtocolError)
}
