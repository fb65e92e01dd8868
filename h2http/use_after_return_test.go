package h2http_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/preset"
)

// usesAfterReturn are uses of a ResponseWriter that a handler has kept. Each panics when the handler has returned.
var usesAfterReturn = map[string]func(http.ResponseWriter){
	"Header":           func(w http.ResponseWriter) { w.Header() },
	"Preset":           func(w http.ResponseWriter) { preset.Set(w, "Content-Type", []string{"late/late"}) },
	"WriteHeader":      func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) },
	"WriteHeader 103":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
	"Write":            func(w http.ResponseWriter) { w.Write([]byte("late")) },
	"Write, long":      func(w http.ResponseWriter) { w.Write(make([]byte, 1<<20)) },
	"WriteString":      func(w http.ResponseWriter) { w.(io.StringWriter).WriteString("late") },
	"ReadFrom":         func(w http.ResponseWriter) { w.(io.ReaderFrom).ReadFrom(strings.NewReader("late")) },
	"Flush":            func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	"SetReadDeadline":  func(w http.ResponseWriter) { http.NewResponseController(w).SetReadDeadline(time.Now()) },
	"SetWriteDeadline": func(w http.ResponseWriter) { http.NewResponseController(w).SetWriteDeadline(time.Now()) },
	//lint:ignore SA1019 it is net/http's, too
	"CloseNotify": func(w http.ResponseWriter) { w.(http.CloseNotifier).CloseNotify() },
}

// TestUseAfterReturn uses the ResponseWriter and the body of a handler that has returned while another handler, which has the same
// goroutine and its memory, is in the middle of its response: the uses fail, and the other's response is as if there had been none.
func TestUseAfterReturn(t *testing.T) {
	for _, s := range stacks {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			type kept struct {
				w http.ResponseWriter
				r *http.Request
			}
			first, second, resume := make(chan kept, 1), make(chan kept, 1), make(chan struct{})
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				k := kept{w, r}
				if r.URL.Path == "/first" {
					first <- k
					return
				}
				w.Header().Set("Content-Type", "second/second")
				io.WriteString(w, "be")
				second <- k
				<-resume
				content, err := io.ReadAll(r.Body)
				if string(content) != "content" || err != nil {
					t.Errorf("the second request's body is %q, %v", content, err)
				}
				io.WriteString(w, "gun")
			}))
			post := func(path string) (string, *http.Response) {
				resp, err := r.client.Post(r.url+path, "", strings.NewReader("content"))
				if err != nil {
					t.Error(err)
					return "", nil
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				return string(got), resp
			}
			post("/first")
			old := <-first
			var wg sync.WaitGroup
			wg.Go(func() {
				got, resp := post("/second")
				if resp == nil {
					return
				}
				if got != "begun" || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "second/second" {
					t.Errorf("the second response is %d %v %q", resp.StatusCode, resp.Header, got)
				}
			})
			<-second
			for name, use := range usesAfterReturn {
				if text := panics(func() { use(old.w) }); !strings.Contains(text, "called after the handler has returned") {
					t.Errorf("%s: panicked with %q", name, text)
				}
			}
			var c tarn.Chain
			c.Append(drainedPool(t).Copy([]byte("late")))
			if text := panics(func() { h2http.WriteChain(old.w, &c) }); text == "" || c.Len() > 0 {
				t.Errorf("WriteChain panicked with %q and has left %d bytes", text, c.Len())
			}
			for range 2 {
				if n, err := old.r.Body.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
					t.Errorf("reading the first body: %d, %v", n, err)
				}
				if err := h2http.BodyChain(old.r, &c); err == nil || err == io.EOF || c.Len() > 0 {
					t.Errorf("BodyChain of the first request: %d, %v", c.Len(), err)
				}
			}
			if err := old.r.Body.Close(); err != nil {
				t.Error(err)
			}
			if old.r.Context().Err() == nil || old.r.URL.Path != "/first" || old.r.Header.Get("Content-Length") != "7" {
				t.Errorf("the first request is %v %v %v", old.r.Context().Err(), old.r.URL, old.r.Header)
			}
			close(resume)
			wg.Wait()
		})
	}
}

// TestUseBeforeTheEnd: once a handler has returned or panicked, which the end of its request's context shows, the methods of its
// ResponseWriter that do not wait for a Write panic, also while the end of its response waits for the client's window.
func TestUseBeforeTheEnd(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		used := make(chan string, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panics" {
				defer panic(http.ErrAbortHandler)
			}
			io.WriteString(w, "the client's window permits none of it")
			go func() {
				<-r.Context().Done()
				var not []string
				for _, name := range []string{"SetReadDeadline", "SetWriteDeadline", "CloseNotify"} {
					if panics(func() { usesAfterReturn[name](w) }) == "" {
						not = append(not, name)
					}
				}
				used <- strings.Join(not, ", ")
			}()
		}))
		p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for i, path := range []string{"/returns", "/panics"} {
			id := uint32(2*i + 1)
			p.request(id, end, "GET", path)
			if not := <-used; not != "" {
				t.Errorf("%s: %s did not panic", path, not)
			}
			p.window(id, 1000)
			p.transcript(id)
		}
	})
}

// panics returns what f panics with; "": it does not.
func panics(f func()) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

// TestUseDuringReturn has handlers return while goroutines that they have left write their responses and read their bodies,
// until that fails. No byte of one exchange is in another.
func TestUseDuringReturn(t *testing.T) {
	for _, s := range stacks {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			const callers, each, goroutines, most = 4, 10, 3, 1000
			left := make(chan struct{}, callers*each*goroutines)
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mark := r.URL.Path
				begun := make(chan struct{})
				leave := func(f func()) {
					go func() {
						defer func() { left <- struct{}{} }()
						f()
					}()
				}
				until := func(write func()) {
					for n := 0; n < most && panics(write) == ""; n++ {
					}
				}
				leave(func() {
					close(begun)
					until(func() { io.WriteString(w, mark) })
				})
				leave(func() {
					<-begun
					until(func() { w.(io.ReaderFrom).ReadFrom(strings.NewReader(mark)) })
				})
				leave(func() {
					content, _ := io.ReadAll(r.Body)
					if strings.Trim(string(content), mark) != "" {
						t.Errorf("read of the body of %s: %q", mark, content)
					}
				})
				<-begun
			}))
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for j := range each {
						mark := fmt.Sprintf("/%c%c", 'a'+i, 'a'+j)
						resp, err := r.client.Post(r.url+mark, "", strings.NewReader(strings.Repeat(mark, 1000)))
						if err != nil {
							t.Error(err)
							return
						}
						got, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						if err != nil || strings.ReplaceAll(string(got), mark, "") != "" {
							t.Errorf("%s: %v; the response is %.100q", mark, err, got)
						}
					}
				})
			}
			wg.Wait()
			for range cap(left) {
				<-left
			}
		})
	}
}

// TestEndedWithTheResponse: when the client has the response, the request's context has ended and the files of its form are removed.
func TestEndedWithTheResponse(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		requests := make(chan *http.Request, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1); err != nil {
				t.Error(err)
			}
			requests <- r
		}))
		form := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 100) + "\r\n--b--\r\n"
		resp, err := r.client.Post(r.url, "multipart/form-data; boundary=b", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		request := <-requests
		if request.Context().Err() == nil {
			t.Error("the context has not ended")
		}
		for _, f := range request.MultipartForm.File["f"] {
			if c, err := f.Open(); err == nil {
				c.Close()
				if !s.own && by127(false, true) {
					continue // net/http leaves it since Go 1.27
				}
				t.Error("the form's file is still there")
			}
		}
	})
}

// TestContextEndsBeforeTheBody: a handler whose read of the request fails because the client has reset the stream finds that the
// request's context has ended, as with net/http.
func TestContextEndsBeforeTheBody(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		const requests = 200
		reading, ended := make(chan struct{}), make(chan error)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p := make([]byte, 10)
			r.Body.Read(p) // there is a byte
			reading <- struct{}{}
			_, err := r.Body.Read(p)
			if r.Context().Err() == nil {
				t.Errorf("reading failed with %v while the context has not ended", err)
			}
			ended <- err
		}))
		p := r.dialPeer(t)
		for i := range uint32(requests) {
			id := 2*i + 1
			p.request(id, more, "POST", "/")
			p.data(id, more, "x")
			<-reading
			p.reset(id, http2.ErrCodeCancel)
			if err := <-ended; err == nil || err == io.EOF {
				t.Errorf("reading ended with %v", err)
			}
		}
	})
}
