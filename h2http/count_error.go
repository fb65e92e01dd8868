package h2http

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/tarn-go/tarn/h2"
)

// lostPing is counted when a keepalive PING was not answered; its ConnError is of NO_ERROR.
const lostPing = "conn_close_lost_ping"

// countError calls the CountError of the user's settings.
func countError(conf *http.HTTP2Config, name string) {
	if conf != nil && conf.CountError != nil {
		conf.CountError(name)
	}
}

// streamError names an error of the peer's on one stream.
func streamError(code h2.Code) string { return "stream_" + codeName(code) }

// codeName is the name of an error code in what is counted: as net/http's.
func codeName(c h2.Code) string {
	if c > h2.HTTP11Required {
		return "ERR_UNKNOWN_" + strconv.FormatUint(uint64(c), 10)
	}
	return c.String()
}

// countEnd counts why a client's connection has ended, unless this side has ended it.
func (c *clientConn) countEnd(err error) {
	var ce *h2.ConnError
	name := "read_frame_other"
	switch is := errors.As(err, &ce); {
	case is && ce.Fault == h2.Peer && ce.Code == h2.NoError:
		name = lostPing
	case is && ce.Fault == h2.Peer:
		name = "read_frame_conn_error_" + codeName(ce.Code)
	case is && ce.Fault == h2.Local, c.endedHere():
		return
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		name = "read_frame_eof"
	}
	countError(c.pool.conf, name)
}
