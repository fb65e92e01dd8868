// Package fasthttp stands in for valyala's.
package fasthttp

type RequestHeader struct{}

func (h *RequestHeader) Peek(key string) []byte { return nil }

type ResponseHeader struct{}

func (h *ResponseHeader) Peek(key string) []byte { return nil }

type URI struct{}

func (u *URI) Path() []byte { return nil }

type Request struct{ Header RequestHeader }

func (r *Request) SetRequestURI(s string) {}
func (r *Request) URI() *URI              { return nil }
func (r *Request) Body() []byte           { return nil }

type Response struct{ Header ResponseHeader }

func (r *Response) Body() []byte         { return nil }
func (r *Response) StatusCode() int      { return 0 }
func (r *Response) BodyTo(b []byte)      {}
func (r *Response) ReleaseBody(size int) {}

type Args struct{}

func (a *Args) Peek(key string) []byte { return nil }

func AcquireRequest() *Request              { return nil }
func ReleaseRequest(req *Request)           {}
func AcquireResponse() *Response            { return nil }
func ReleaseResponse(resp *Response)        {}
func AcquireArgs() *Args                    { return nil }
func ReleaseArgs(a *Args)                   {}
func Do(req *Request, resp *Response) error { return nil }
