package main

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
)

// maxUnparsed is the length in bytes of the longest request of handleUnparsed.
const maxUnparsed = 4 << 10

// handleUnparsed serves POSTs with Content-Length, each with the body that answer makes of the request's. The Content-Length is
// all that it looks for in a head: it checks no field, and has no http.Request, methods, metadata, contexts or interceptors. So a
// server that may only serve valid requests costs more. It closes the connection at any other request, and does not serve
// pipelined requests.
func handleUnparsed(answer func([]byte) ([]byte, error)) func(net.Conn) error {
	return func(nc net.Conn) error {
		go serveUnparsed(nc, answer)
		return nil
	}
}

// serveUnparsed serves one connection, and closes it at the end.
func serveUnparsed(nc net.Conn, answer func([]byte) ([]byte, error)) {
	defer nc.Close()
	in, out := make([]byte, maxUnparsed), make([]byte, 0, maxUnparsed)
	have := 0
	for {
		head, length := 0, 0
		for head == 0 || have < head+length {
			n, err := nc.Read(in[have:])
			if err != nil {
				return
			}
			have += n
			if i := bytes.Index(in[:have], []byte("\r\n\r\n")); head == 0 && i >= 0 {
				head = i + len("\r\n\r\n")
				var ok bool
				if length, ok = unparsedLength(in[:head]); !ok {
					return
				}
			}
			if have == len(in) && (head == 0 || have < head+length) {
				return
			}
		}
		text, err := answer(in[head : head+length])
		if err != nil {
			return
		}
		out = append(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"...)
		out = time.Now().UTC().AppendFormat(append(out, "Date: "...), http.TimeFormat)
		out = strconv.AppendInt(append(out, "\r\nContent-Length: "...), int64(len(text)), 10)
		out = append(append(out, "\r\n\r\n"...), text...)
		if _, err := nc.Write(out); err != nil {
			return
		}
		have = copy(in, in[head+length:have])
	}
}

// unparsedLength is a request's Content-Length; false: it is no POST, or has none.
func unparsedLength(head []byte) (int, bool) {
	if !bytes.HasPrefix(head, []byte("POST ")) {
		return 0, false
	}
	_, after, ok := bytes.Cut(head, []byte("\r\nContent-Length: "))
	if !ok {
		return 0, false
	}
	text, _, _ := bytes.Cut(after, []byte("\r\n"))
	n, err := strconv.ParseUint(string(text), 10, 30)
	return int(n), err == nil
}

// answerJSON decodes a request and encodes the response.
func answerJSON(text []byte) ([]byte, error) {
	return answer(text, protojson.Unmarshal, protojson.Marshal)
}

// answerSame answers a request of TestService's UnaryCall without decoding it: the response is the same text.
func answerSame(text []byte) ([]byte, error) { return text, nil }
