// Package fast has mistakes with fasthttp's objects.
package fast

import (
	"os"

	"github.com/valyala/fasthttp"
)

func body(url string) ([]byte, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	if err := fasthttp.Do(req, resp); err != nil {
		return nil, err
	}
	return resp.Body(), nil // want `escape: bytes of resp are returned, but it was given back by ReleaseResponse`
}

func bodyInLiteral(url string) []byte {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer func() {
		fasthttp.ReleaseRequest(req)
		fasthttp.ReleaseResponse(resp)
	}()
	fasthttp.Do(req, resp)
	return resp.Body() // want `escape: bytes of resp are returned`
}

func header(url string) {
	resp := fasthttp.AcquireResponse()
	typ := resp.Header.Peek("Content-Type")
	fasthttp.ReleaseResponse(resp)
	os.Stdout.Write(typ) // want `use after release: these are bytes of resp`
}

func status() int {
	resp := fasthttp.AcquireResponse()
	fasthttp.ReleaseResponse(resp)
	return resp.StatusCode() // want `use after release: resp was given back`
}

func args() {
	a := fasthttp.AcquireArgs()
	fasthttp.ReleaseArgs(a)
	fasthttp.ReleaseArgs(a) // want `double release: a was given back`
}

func right(url string) ([]byte, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	if err := fasthttp.Do(req, resp); err != nil {
		return nil, err
	}
	return append([]byte(nil), resp.Body()...), nil
}

func rightString() string {
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	return string(resp.Body())
}
