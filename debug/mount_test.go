package debug

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/tarn-go/tarn"
)

// mounted serves handler at the paths at which programs and proxies serve it.
func mounted(t *testing.T, handler http.Handler) http.Handler {
	t.Helper()
	program := http.NewServeMux()
	program.Handle("/debug/tarn", handler)
	program.Handle("/debug/tarn/", handler)
	behind := httptest.NewServer(program)
	t.Cleanup(behind.Close)
	target, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/pools/", handler)
	mux.Handle("/exact", handler)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", handler))
	mux.Handle("/emptied", http.StripPrefix("/emptied", handler))
	mux.Handle("/services/a/", http.StripPrefix("/services/a", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	return mux
}

// Wherever the page is mounted, its script finds its figures, and its links lead to the same path and are answered.
func TestBrowserMounts(t *testing.T) {
	longInBrowser(t)
	one, two := busyPool(t, tarn.PoolConfig{Name: "one", Check: tarn.CheckAll}), busyPool(t, tarn.PoolConfig{Name: "two & more?"})
	registry := registryOf(one.Pool)
	registry.Add(two.Pool)
	v := visitHandler(t, mounted(t, HandlerOf(registry)))
	for _, m := range []struct{ name, at, path string }{
		{"a prefix", "/pools/", "/pools/"},
		{"a prefix, and ServeMux adds its slash", "/pools", "/pools/"},
		{"a path below a prefix", "/pools/of/this/program", "/pools/of/this/program"},
		{"a path without a slash", "/exact", "/exact"},
		{"a prefix that is stripped", "/stripped/", "/stripped/"},
		{"a path that is stripped to nothing", "/emptied", "/emptied"},
		{"a proxy's prefix", "/services/a/debug/tarn/", "/services/a/debug/tarn/"},
		{"a proxy's prefix, without the slash", "/services/a/debug/tarn", "/services/a/debug/tarn"},
	} {
		t.Run(m.name, func(t *testing.T) {
			v := v.of(t)
			at := `location.pathname == "` + m.path + `" && `
			v.must(v.Open(v.ctx, v.server.URL+m.at))
			v.until(at + `document.querySelectorAll("tr[data-pool]").length == 2 && [...document.querySelectorAll("tr[data-pool] .rate")].every(r => /\d/.test(r.textContent))`)
			v.links(7)
			v.must(v.Eval(v.ctx, `document.querySelector("tr[data-pool*=more] a").click()`, nil))
			v.until(at + `document.querySelector("h1")?.textContent == "two & more?" && /\d/.test(document.getElementById("rate")?.textContent)`)
			v.links(8)
			v.must(v.Eval(v.ctx, `[...document.querySelectorAll("#tabs a")].find(a => a.textContent.startsWith("one")).click()`, nil))
			v.until(at + `document.querySelector("h1")?.textContent == "one" && document.querySelector("#outstanding a") && document.readyState == "complete"`)
			v.links(10)
			v.must(v.Eval(v.ctx, `document.querySelector(".views a:last-child").click()`, nil))
			v.until(at + `document.querySelector("#methods") && /\d/.test(document.getElementById("calls-rate")?.textContent)`)
			v.links(9)
			v.must(v.Eval(v.ctx, `document.querySelector(".mark").click()`, nil))
			v.until(at + `document.querySelectorAll("tr[data-pool]").length == 2`)
		})
	}
	v.content()
}

// of is v for a subtest.
func (v *visitor) of(t *testing.T) *visitor {
	return &visitor{Browser: v.Browser, t: t, ctx: v.ctx, host: v.host, url: v.url, server: v.server}
}

// links follows every link of the page, of which there are at least so many.
func (v *visitor) links(least int) {
	v.t.Helper()
	var links []struct{ Link, Went string }
	v.must(v.Eval(v.ctx, `Promise.all([...document.querySelectorAll("a[href]:not([href^=\"https:\"])")].map(async a => {
		const answer = await fetch(a.href), to = new URL(answer.url);
		return { link: a.getAttribute("href"), went: answer.ok && to.origin == location.origin && to.pathname == location.pathname ? "" : answer.status + " " + to };
	}))`, &links))
	if len(links) < least {
		v.t.Errorf("%d links, want at least %d: %v", len(links), least, links)
	}
	for _, l := range links {
		if l.Went != "" {
			v.t.Errorf("the link %q leads to %s", l.Link, l.Went)
		}
	}
}
