package rpc

import (
	"io"
	"net/http"
	"strings"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/web"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// openGRPC parses the header of a gRPC or gRPC-Web request, which differ in the content type only.
func (c *webCall) openGRPC(p webProtocol, codec string) *webRefusal {
	c.proto = p
	c.body = webBody{r: (*requestBody)(c), refs: refsOf(c.w, c.r), pool: c.srv.opts.pool, limit: c.srv.opts.maxRecv}
	if f, ok := p.(*webFrames); ok && f.text == base64Text {
		c.body.r, c.body.refs = &web.TextReader{R: (*requestBody)(c)}, nil
	}
	if no := c.find(); no != nil {
		no.httpStatus = http.StatusOK // gRPC has it in grpc-status
		return no
	}
	if no := c.duplex(); no != nil {
		return no
	}
	if !c.codecFor(codec) {
		c.codec = message.Default() // as in grpc-go, an unknown subtype means protobuf
	}
	if name := c.field("Grpc-Encoding"); !identity(name) {
		c.encoding = name
		if c.compressor = encoding.GetCompressor(name); c.compressor == nil {
			return &webRefusal{httpStatus: http.StatusOK, tapped: true, header: http.Header{"Grpc-Accept-Encoding": {c.srv.accepts}},
				st: status.Newf(codes.Unimplemented, "Decompressor is not installed for grpc-encoding %q", name)}
		}
		if web.Accepts(c.field("Grpc-Accept-Encoding"), name) {
			c.outgoing = c.compressor
		}
	}
	if text := c.field("Grpc-Timeout"); text != "" {
		d, err := header.ParseTimeout(text)
		if err != nil {
			return &webRefusal{httpStatus: http.StatusBadRequest, st: status.New(codes.Internal, err.Error())}
		}
		c.within(d)
	}
	return nil
}

// setGRPCHeader sets the response's fields that gRPC and gRPC-Web share. The content type is the
// request's.
func (c *webCall) setGRPCHeader() {
	c.set("Content-Type", c.sameContentType()...)
	if c.outgoing != nil {
		c.set("Grpc-Encoding", c.outgoing.Name())
	}
	if c.srv.accepts != "" {
		c.set("Grpc-Accept-Encoding", c.srv.acceptsField...)
	}
}

// sameContentType is the request's content type, for the response.
func (c *webCall) sameContentType() []string {
	if ct := c.values("Content-Type"); len(ct) > 0 {
		return ct[:1:1]
	}
	return []string{""}
}

// writeMessage takes ownership of m and writes it, piece by piece.
func writeMessage(w io.Writer, m message.Message) error {
	if m.Chain == nil && m.Len() <= declaredByHTTP {
		defer m.Free()
		_, err := w.Write(m.Buf.Bytes()) // which copies short pieces in any case
		return err
	}
	if rw, ok := w.(http.ResponseWriter); ok && h2http.CanWriteChain(rw) {
		var c tarn.Chain
		m.IntoChain(&c)
		return h2http.WriteChain(rw, &c)
	}
	defer m.Free()
	if m.Chain != nil {
		_, err := m.Chain.WriteTo(w)
		return err
	}
	_, err := w.Write(m.Buf.Bytes())
	return err
}

// webGRPC is gRPC over net/http's HTTP/2.
type webGRPC webCall

func (p *webGRPC) call() *webCall { return (*webCall)(p) }

func (p *webGRPC) header() { p.call().setGRPCHeader() }

func (p *webGRPC) message(m message.Message, info payloadInfo) (int, error) {
	return info.wire, writeMessage(p.call().w, m)
}

func (p *webGRPC) end(st *status.Status, begun headerState) error {
	c := p.call()
	if c.state != headerWritten { // a trailers-only response
		p.header()
		putStatusFields(c.w.Header(), "", st)
		c.addFields("", c.trailer)
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	if st == nil {
		c.set(http.TrailerPrefix+"Grpc-Status", statusOKField...)
	} else {
		putStatusFields(c.w.Header(), http.TrailerPrefix, st)
	}
	c.addFields(http.TrailerPrefix, c.trailer)
	return nil
}

func (p *webGRPC) refuse(no *webRefusal) {
	p.call().setGRPCHeader()
	putStatusFields(p.call().w.Header(), "", no.st)
	p.call().w.WriteHeader(no.httpStatus)
}

// statusOKField is shared by all responses and is never changed.
var statusOKField = []string{"0"}

// putStatusFields adds grpc-status and the fields that belong to it.
func putStatusFields(h http.Header, prefix string, st *status.Status) {
	for _, f := range appendStatus(nil, st) {
		if f.Name == "grpc-message" {
			f.Value = strings.Clone(f.Value) // h is written when the call has released its request, of which this may be a view
		}
		h.Set(prefix+f.Name, f.Value)
	}
}

// webText says how the bytes of gRPC-Web are encoded.
type webText uint8

const (
	binaryFrames webText = iota
	base64Text           // application/grpc-web-text
)

// webFrames is gRPC-Web: gRPC with its trailer as a last frame of the body
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md).
type webFrames struct {
	call *webCall
	text webText
}

func (p *webFrames) header() { p.call.setGRPCHeader() }

func (p *webFrames) message(m message.Message, info payloadInfo) (int, error) {
	return info.wire, writeMessage(p.writer(), m)
}

// writer writes the response's body in the client's encoding.
func (p *webFrames) writer() io.Writer {
	if p.text == binaryFrames {
		return p.call.w
	}
	return web.TextWriter{W: p.call.w}
}

func (p *webFrames) end(st *status.Status, begun headerState) error {
	if p.call.state != headerWritten {
		p.header()
	}
	_, err := p.writer().Write(web.TrailerFrame(append(appendStatus(nil, st), appendMetadata(nil, p.call.trailer)...)))
	return err
}

func (p *webFrames) refuse(no *webRefusal) {
	p.call.setGRPCHeader()
	putStatusFields(p.call.w.Header(), "", no.st)
	p.call.w.WriteHeader(no.httpStatus)
}
