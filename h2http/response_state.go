package h2http

import (
	"net/http"
	"strconv"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/preset"
)

// maxIdleWorkers is how many goroutines wait for further requests at most.
const maxIdleWorkers = 1024

// response is the state of a response while its handler runs. It is memory that a worker lends to one
// exchange after another. responseWriter.mu guards it.
type response struct {
	header   http.Header    // the handler's; nil: it has not asked for one
	preset   []preset.Field // the header until the handler asks for it
	head     responseHead
	gathered tarn.Buffer // gatherSize long; zero: nothing
	n        int         // bytes in it
	written  int64
	failed   error // what sending has failed with; nil: it has not

	fields   []h2.Field // header lists on their way out
	trailers []h2.Field // the same for trailers
	chain    tarn.Chain // content on its way out; empty between writes
	length   cachedLength
	counted  ending // not cleared
}

// maxScratch is how many fields are kept.
const maxScratch = 64

// headerMap returns the header as a map, into which it moves what has been set before.
func (r *response) headerMap() http.Header {
	if r.header == nil {
		r.header = make(http.Header, len(r.preset))
		for _, f := range r.preset {
			r.header[f.Key] = f.Values
		}
		r.preset = r.preset[:0]
	}
	return r.header
}

// set sets a field of the header.
func (r *response) set(f preset.Field) {
	if r.header != nil {
		r.header[f.Key] = f.Values
		return
	}
	for i := range r.preset {
		if r.preset[i].Key == f.Key {
			r.preset[i] = f
			return
		}
	}
	r.preset = append(r.preset, f)
}

// values returns the values of a field of the header.
func (r *response) values(key string) []string {
	if r.header != nil {
		return r.header[key]
	}
	for i := range r.preset {
		if r.preset[i].Key == key {
			return r.preset[i].Values
		}
	}
	return nil
}

// clear frees and drops what r holds of an exchange that has ended.
func (r *response) clear() {
	r.freeGathered()
	r.header, r.written, r.failed = nil, 0, nil
	r.preset, r.fields, r.trailers = emptied(r.preset), emptied(r.fields), emptied(r.trailers)
	r.head = responseHead{trailers: emptied(r.head.trailers)}
}

// freeGathered frees what is gathered.
func (r *response) freeGathered() {
	r.gathered.Free()
	r.gathered, r.n = tarn.Buffer{}, 0
}

// emptied returns the memory of s for another use, if it is not too large.
func emptied[T any](s []T) []T {
	if cap(s) > maxScratch {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}

// cachedLength turns a length into text without an allocation when it is the same as
// before.
type cachedLength struct {
	n int
	s string
}

func (c *cachedLength) text(n int) string {
	if n != c.n || c.s == "" {
		c.n, c.s = n, strconv.Itoa(n)
	}
	return c.s
}
