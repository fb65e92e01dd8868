package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/plot"
)

// sessions draws the SMB sessions.
func (v *view) sessions(b *strings.Builder) {
	for _, e := range v.now.Endpoints {
		if e.Session != nil {
			b.WriteString("\n")
			v.session(b, &e)
		}
	}
}

// session draws one SMB session: its connection, its requests and its bytes.
func (v *view) session(b *strings.Builder, e *endpoint.State) {
	s := e.Session
	state := fmt.Sprintf("connected for %v;", s.Age.Round(time.Second))
	switch {
	case s.Closed:
		state = "closed;"
	case e.Conns == 0:
		state = "not connected;"
	}
	name := cut(fetch.Clean(e.Name), v.width)
	phrases := []string{state}
	if s.Dialect != "" {
		phrases = append(phrases, "dialect "+fetch.Clean(s.Dialect)+",", "protection: "+fetch.Clean(s.Protection)+";")
	}
	v.wrap(b, v.styles.title.Render(name), lipgloss.Width(name), append(phrases, plot.Counted(float64(s.Reconnects), "reconnection"))...)
	v.wrap(b, " ", 1, plot.Counted(float64(s.InFlight), "request")+" in flight,", plot.Counted(float64(s.Credits), "credit")+" free,",
		plot.Counted(float64(s.Waiting), "call")+" waiting for credits;",
		"received "+v.moved(e.Name, s.Received, func(s *endpoint.Session) uint64 { return s.Received })+",",
		"sent "+v.moved(e.Name, s.Sent, func(s *endpoint.Session) uint64 { return s.Sent }))
}

// moved is a session's number of bytes, with its growth in a second behind it where that is known.
func (v *view) moved(name string, now uint64, counter func(*endpoint.Session) uint64) string {
	text := plot.Bytes(float64(now))
	old := sessionOf(v.before, name)
	if old == nil || counter(old) > now {
		return text
	}
	seconds := v.now.Time.Sub(v.before.Time).Seconds()
	if seconds <= 0 {
		return text
	}
	return fmt.Sprintf("%s (%s/s)", text, plot.Bytes(float64(now-counter(old))/seconds))
}

// sessionOf is the session of the named endpoint in s; nil: there is none.
func sessionOf(s *debug.Snapshot, name string) *endpoint.Session {
	if s != nil {
		for i := range s.Endpoints {
			if s.Endpoints[i].Name == name {
				return s.Endpoints[i].Session
			}
		}
	}
	return nil
}
