package debug

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
	"github.com/tarn-go/tarn/internal/browser"
	"github.com/tarn-go/tarn/internal/browser/browsertest"
)

var shots = flag.String("shots", "", "write screenshots of the page into this directory")

// visitor is a browser on a page of a separate server, with the errors that it reported.
type visitor struct {
	*browser.Browser
	t    *testing.T
	ctx  context.Context
	host string
	url  string

	server *httptest.Server

	mu         sync.Mutex
	complaints []string
}

// visit starts a browser on a handler over pools, or leaves the test out where there is none.
func visit(t *testing.T, pools ...*tarn.Pool) *visitor {
	t.Helper()
	return visitSource(t, fixed(pools))
}

// inBrowser leaves a test out under the race detector when what it tests is the page's script and style, in the browser. The
// detector sees the handler serve a browser in TestBrowserLive and TestBrowserCalls.
func inBrowser(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("runs without the race detector only: it tests what the browser does")
	}
}

// longInBrowser is inBrowser for a test that takes many seconds, which the short form leaves out. `make usual` runs it.
func longInBrowser(t *testing.T) {
	t.Helper()
	inBrowser(t)
	if testing.Short() {
		t.Skip("takes many seconds of a browser")
	}
}

// visitSource is visit for a set that may have servers and clients.
func visitSource(t *testing.T, source Source) *visitor {
	t.Helper()
	return visitHandler(t, HandlerOf(source))
}

// visitHandler is visitSource for a handler that serves the page.
func visitHandler(t *testing.T, handler http.Handler) *visitor {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	v := &visitor{t: t, ctx: ctx, host: strings.TrimPrefix(server.URL, "http://"), url: server.URL + "/debug/tarn/", server: server}
	v.Browser = browsertest.Start(ctx, t, v.event)
	v.must(v.Size(ctx, 1280, 900, 1))
	return v
}

// event notes errors, refusals of the content security policy, and requests to anywhere else.
func (v *visitor) event(method string, params json.RawMessage) {
	bad := method == "Runtime.exceptionThrown" || method == "Log.entryAdded" || method == "Runtime.consoleAPICalled"
	if method == "Network.requestWillBeSent" {
		var sent struct{ Request struct{ URL string } }
		json.Unmarshal(params, &sent)
		u, err := url.Parse(sent.Request.URL)
		bad = err != nil || u.Scheme != "data" && u.Host != v.host
	}
	if bad {
		v.mu.Lock()
		v.complaints = append(v.complaints, method+" "+string(params))
		v.mu.Unlock()
	}
}

func (v *visitor) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

// until waits, in the page, until an expression is true.
func (v *visitor) until(expression string) {
	v.t.Helper()
	var ok bool
	ask := `new Promise(done => { const end = Date.now() + 15000, look = () => (` + expression +
		`) ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 50); look(); })`
	err := v.Eval(v.ctx, ask, &ok)
	for errors.Is(err, browser.ErrNavigated) {
		err = v.Eval(v.ctx, ask, &ok)
	}
	v.must(err)
	if !ok {
		var text string
		v.must(v.Eval(v.ctx, "document.body.innerText", &text))
		v.t.Fatalf("never true: %s\n%s", expression, text)
	}
}

func (v *visitor) key(key string) {
	v.t.Helper()
	for _, typ := range []string{"keyDown", "keyUp"} {
		event := map[string]any{"type": typ, "key": key}
		if typ == "keyDown" && len(key) == 1 {
			event["text"] = key
		}
		if key == "Escape" {
			event["windowsVirtualKeyCode"] = 27 // by which Chromium closes what is open
		}
		v.must(v.Call(v.ctx, "Input.dispatchKeyEvent", event, nil))
	}
}

// content fails the test with the errors that the browser reported.
func (v *visitor) content() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.complaints {
		v.t.Error(c)
	}
}

// shoot keeps a screenshot where the -shots flag asks for them.
func (v *visitor) shoot(name string) {
	v.t.Helper()
	png, err := v.Screenshot(v.ctx)
	v.must(err)
	if len(png) < 10000 {
		v.t.Errorf("%s: a picture of %d bytes shows nothing", name, len(png))
	}
	if *shots != "" {
		v.must(os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644))
	}
}

func TestBrowserLive(t *testing.T) {
	pool := busyPool(t, tarn.PoolConfig{Name: "live", Check: tarn.CheckAll})
	v := visit(t, pool.Pool)
	v.must(v.Scheme(v.ctx, "light"))
	v.must(v.Open(v.ctx, v.url))
	v.until(`document.title.startsWith("live ·")`)
	v.until(`/\d/.test(document.getElementById("rate").textContent) && document.querySelectorAll("#memory path").length >= 5`)
	v.until(`document.querySelectorAll("tr[data-class] td.spark svg").length > 3`)
	v.until(`document.querySelectorAll(".plot.wide svg").length == 2 && document.querySelector("#ladder").textContent.startsWith("Classes: []int{")`)
	v.shoot("desktop-light")

	// What the reader opened stays open when the server's parts are taken over.
	v.until(`document.querySelectorAll("details").length > 0`)
	v.must(v.Eval(v.ctx, `document.querySelector("details").open = true; document.querySelector("details").dataset.mine = "1"`, nil))
	pool.traffic(t, 500)
	v.until(`document.querySelector("details[open]") && !document.querySelector("details[data-mine]")`)

	// By keyboard: pause, read a chart, switch the theme.
	v.key("p")
	v.until(`document.getElementById("pause").getAttribute("aria-pressed") == "true"`)
	v.must(v.Eval(v.ctx, `document.getElementById("memory").focus()`, nil))
	v.key("ArrowLeft")
	v.until(`!document.querySelector("#memory .tip").hidden && document.querySelector("#memory .tip").textContent.includes("in use")`)
	light := v.background()
	v.key("t")
	if dark := v.background(); dark == light {
		t.Errorf("the theme stays %s", dark)
	}
	v.content()

	// When the service ends the page says so, and keeps its last figures.
	v.key("p")
	v.server.Close()
	v.until(`document.getElementById("state").textContent == "no answer" && document.querySelectorAll("#memory path").length >= 5`)
}

func (v *visitor) background() (colour string) {
	v.t.Helper()
	v.must(v.Eval(v.ctx, "getComputedStyle(document.body).backgroundColor", &colour))
	return colour
}

func TestBrowserPhoneAndDark(t *testing.T) {
	longInBrowser(t)
	v := visit(t, busyPool(t, tarn.PoolConfig{Name: "a pool with <b>a name</b>", Check: tarn.CheckAll}).Pool, busyPool(t, tarn.PoolConfig{Name: "other"}).Pool,
		busyPool(t, tarn.PoolConfig{Name: "frames of the storage backend in eu-west-1, " + strings.Repeat("long", 20)}).Pool)
	v.must(v.Open(v.ctx, v.url))
	v.until(`document.querySelectorAll("tr[data-pool]").length == 3 && /\d/.test(document.querySelector("tr[data-pool] .rate").textContent)`)
	v.shoot("overview")
	v.must(v.Size(v.ctx, 1280, 800, 1))
	v.until(`innerWidth == 1280`)
	v.uncut()
	v.must(v.Size(v.ctx, 360, 800, 1))
	v.until(`innerWidth == 360`)
	v.uncut()
	v.must(v.Eval(v.ctx, `document.querySelector("tr[data-pool*=name] a").click()`, nil))
	v.until(`document.querySelector("h1") && document.querySelector("h1").textContent == "a pool with <b>a name</b>"`)
	for _, scheme := range []string{"light", "dark"} {
		v.must(v.Scheme(v.ctx, scheme))
		for name, width := range map[string]int{"small": 320, "phone": 360, "tablet": 768, "desktop": 1280} {
			v.must(v.Size(v.ctx, width, 800, 1))
			v.until(`innerWidth == ` + fmt.Sprint(width) + ` && document.querySelector("#memory svg path")`)
			v.until(`Math.abs(document.querySelector("#memory svg").viewBox.baseVal.width - document.getElementById("memory").clientWidth) < 2`) // drawn for this width
			v.until(`document.documentElement.scrollWidth <= innerWidth`)
			v.must(v.Eval(v.ctx, `document.querySelectorAll("dd[data-n]").forEach(dd => { dd.textContent = "≈ 1023 MiB"; })`, nil))
			v.uncut()
			v.unwrapped()
			v.readable()
			v.shoot(name + "-" + scheme)
		}
	}
	if light, dark := v.schemes(); light == dark {
		t.Errorf("the background is %s in light and in dark", light)
	}
	v.must(v.Eval(v.ctx, `document.querySelector(".tabs a[href*=long]").click()`, nil))
	v.until(`document.querySelector("h1") && document.querySelector("h1").textContent.includes("long")`)
	v.must(v.Size(v.ctx, 360, 800, 1))
	v.until(`innerWidth == 360 && document.documentElement.scrollWidth <= innerWidth`)
	v.must(v.Eval(v.ctx, `document.querySelector(".tabs a[href*=other]").click()`, nil))
	v.until(`document.querySelector("h1") && document.querySelector("h1").textContent == "other"`)
	v.content()
}

// A page that is opened before the pool's first Get shows that Get.
func TestBrowserBeforeTheFirstGet(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "early"})
	if err != nil {
		t.Fatal(err)
	}
	v := visit(t, pool)
	v.must(v.Open(v.ctx, v.url))
	v.until(`document.getElementById("state").textContent == "live" && document.querySelector("#memory svg path")`)
	v.until(`[...document.querySelectorAll("#memory text")].every(t => !t.textContent.includes("."))`) // whole numbers
	v.until(fmt.Sprintf(`document.getElementById("unused").textContent.startsWith("%d classes")`, len(pool.Classes())))
	pool.Get(5000).Free()
	v.until(`document.querySelectorAll("tr[data-class]").length == 1`)
	v.until(`document.querySelector("tr[data-class] .rate").textContent != "–"`)
	v.content()
}

// uncut checks that no table and no row of tabs is wider than its place, so that nothing is cut off on a narrow screen.
func (v *visitor) uncut() {
	v.t.Helper()
	var cut []string
	v.must(v.Eval(v.ctx, `[...document.querySelectorAll(".scroll, .tabs, .tile dd")].filter(s => s.scrollWidth > s.clientWidth).map(s => (s.ariaLabel || s.textContent) + ": " + s.scrollWidth + " in " + s.clientWidth + ", window " + innerWidth)`, &cut))
	for _, table := range cut {
		v.t.Errorf("wider than its place: %s", table)
	}
}

// readable checks that no text is too small.
func (v *visitor) readable() {
	v.t.Helper()
	small, err := v.SmallText(v.ctx, 10.9) // 11, but for rounding
	v.must(err)
	for _, text := range small {
		v.t.Errorf("too small: %s", text)
	}
}

// whole checks that the names in tables break between words only. Those of methods and statuses are words written together.
func (v *visitor) whole() {
	v.t.Helper()
	var broken []string
	v.must(v.Eval(v.ctx, `[...document.querySelectorAll("th.fn, td.why")].flatMap(cell => {
		const found = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
		for (let text; text = texts.nextNode();) {
			for (const word of text.data.matchAll(/\w+/g)) {
				const range = document.createRange();
				range.setStart(text, word.index);
				range.setEnd(text, word.index + word[0].length);
				if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.push(word[0]);
			}
		}
		return found;
	})`, &broken))
	for _, word := range broken {
		v.t.Errorf("broken within itself: %s", word)
	}
}

// unwrapped checks that each line that is to be pasted is one line, in a box that scrolls where it must.
func (v *visitor) unwrapped() {
	v.t.Helper()
	var lines, shown int
	v.must(v.Eval(v.ctx, `document.querySelector("#ladder").textContent.split("\n").length`, &lines))
	v.must(v.Eval(v.ctx, `(() => {
		const range = document.createRange();
		range.selectNodeContents(document.querySelector("#ladder code"));
		return new Set([...range.getClientRects()].filter(r => r.width > 0).map(r => Math.round(r.top))).size;
	})()`, &shown))
	if shown != lines {
		v.t.Errorf("the %d lines to paste are shown as %d", lines, shown)
	}
}

// The labels of figures are not cut off, also where a pool wastes so little that they have decimals.
func TestBrowserLabelsFit(t *testing.T) {
	longInBrowser(t)
	pool := named(t, "frames")
	for range 4000 {
		pool.Get(16 << 10).Free()
	}
	v := visit(t, pool)
	for _, width := range []int{320, 800, 1280} {
		v.must(v.Size(v.ctx, width, 900, 1))
		v.must(v.Open(v.ctx, v.url))
		v.until(`document.querySelectorAll("#sizing svg.curve").length == 3 && innerWidth == ` + fmt.Sprint(width))
		var cut []string
		v.must(v.Eval(v.ctx, `[...document.querySelectorAll("#sizing svg text")].filter(text => {
			const at = text.getBoundingClientRect(), figure = text.ownerSVGElement.getBoundingClientRect();
			return at.left < figure.left - 1 || at.right > figure.right + 1;
		}).map(text => text.textContent)`, &cut))
		if len(cut) > 0 {
			t.Errorf("%d wide: cut off: %q", width, cut)
		}
	}
	v.content()
}

// After an outage the lines have a gap instead of a straight line through it.
func TestBrowserCutsLinesAtAnOutage(t *testing.T) {
	longInBrowser(t)
	v := visit(t, busyPool(t, tarn.PoolConfig{Name: "cut"}).Pool)
	v.must(v.Open(v.ctx, v.url))
	v.until(`document.querySelectorAll("#memory .e-use").length == 1 && /\d/.test(document.getElementById("rate").textContent)`)
	v.key("p")
	v.until(`document.getElementById("state").textContent == "paused"`)
	v.must(v.Eval(v.ctx, `new Promise(done => setTimeout(done, 5600))`, nil))
	v.key("p")
	v.until(`(document.querySelector("#memory .e-use").getAttribute("d").match(/M/g) || []).length == 2`)
	v.content()
}

// The charts show at once what was before the page was opened.
func TestBrowserShowsHistory(t *testing.T) {
	inBrowser(t)
	h := HandlerOf(NewRegistry(busyPool(t, tarn.PoolConfig{Name: "old"}).Pool)).(*handler)
	now := time.Now()
	for ago := 30 * time.Minute; ago > 0; ago -= historyStep {
		h.history.observe(now.Add(-ago))
	}
	v := visitHandler(t, h)
	v.must(v.Open(v.ctx, v.url))
	v.until(`document.querySelector("#memory svg").textContent.includes("−40 min") && document.querySelector("#memory .e-use").getAttribute("d").split("L").length > 150`)
	v.content()
}

func TestBrowserAccessibility(t *testing.T) {
	inBrowser(t)
	v := visit(t, busyPool(t, tarn.PoolConfig{Name: "one", Check: tarn.CheckAll}).Pool, inTrouble(t, "two"))
	v.accessible("", "?pool=one", "?pool=two")
}

// inTrouble returns a pool with what the page calls trouble: a foreign slice, gets over the budget and goroutines that wait for it.
func inTrouble(t *testing.T, name string) *tarn.Pool {
	t.Helper()
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: name, Budget: 8192, Check: tarn.CheckAll, Report: func(tarn.Misuse) {}})
	if err != nil {
		t.Fatal(err)
	}
	foreign := make([]byte, 100)
	adapt.GRPC(pool).Put(&foreign)
	held := pool.Get(16 << 10)
	t.Cleanup(held.Free)
	ctx, cancel := context.WithCancel(t.Context())
	const waiting = 12 // axe-core judges no contrast of a single digit
	var waits sync.WaitGroup
	for range waiting {
		waits.Go(func() {
			if b, err := pool.Acquire(ctx, 100); err == nil {
				b.Free()
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		waits.Wait()
	})
	for pool.Stats().Waiting < waiting {
		runtime.Gosched()
	}
	return pool
}

// accessible runs axe-core on pages, on a wide screen in both colour schemes and on a phone, with every part that opens open.
func (v *visitor) accessible(queries ...string) {
	v.t.Helper()
	axe := browsertest.Axe(v.t, "..")
	for _, query := range queries {
		for _, on := range []struct {
			width  int
			scheme string
		}{{1280, "light"}, {1280, "dark"}, {360, "light"}} {
			v.must(v.Size(v.ctx, on.width, 800, 1))
			v.must(v.Scheme(v.ctx, on.scheme))
			v.must(v.Open(v.ctx, v.url+query))
			v.until(`document.querySelector("h1") && innerWidth == ` + fmt.Sprint(on.width))
			v.must(v.Eval(v.ctx, `document.querySelectorAll("details").forEach(d => { d.open = true })`, nil))
			found, err := v.Violations(v.ctx, axe)
			v.must(err)
			for _, f := range found {
				v.t.Errorf("%q, %d wide, in %s: %s", query, on.width, on.scheme, f)
			}
		}
	}
	v.content()
}

func (v *visitor) schemes() (light, dark string) {
	v.t.Helper()
	v.must(v.Scheme(v.ctx, "light"))
	light = v.background()
	v.must(v.Scheme(v.ctx, "dark"))
	return light, v.background()
}

func TestBrowserWithoutScript(t *testing.T) {
	v := visit(t, busyPool(t, tarn.PoolConfig{Name: "still"}).Pool)
	v.must(v.Call(v.ctx, "Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil))
	v.must(v.Call(v.ctx, "Page.navigate", map[string]any{"url": v.url}, nil))
	var text string
	for deadline, _ := v.ctx.Deadline(); !strings.Contains(text, "troubleshooting") && time.Now().Before(deadline); {
		v.must(v.Eval(v.ctx, "document.body ? document.body.innerText : ''", &text))
	}
	for _, want := range []string{"still", "in use", "Hit rate", "Which size wastes what", "Ready to paste", "Classes: []int{", "16 KiB", "reload"} {
		if !strings.Contains(text, want) {
			t.Errorf("without JavaScript the page does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Copy") {
		t.Error("without JavaScript the page shows a button that does nothing")
	}
	v.shoot("without-script")
	v.content()
}

// In a large window no card is half empty: of a pool whose classes are kept, and of one that has places of misuse to show.
func TestBrowserFillsCards(t *testing.T) {
	longInBrowser(t)
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "misused", Check: tarn.CheckAll, Report: func(tarn.Misuse) {}})
	if err != nil {
		t.Fatal(err)
	}
	for range 4000 {
		pool.Get(300).Free()
	}
	for range 3 {
		func() {
			defer func() { _ = recover() }()
			b := pool.Get(10)
			b.Free()
			b.Free()
		}()
	}
	v := visit(t, pool)
	v.must(v.Size(v.ctx, 1180, 900, 1))
	v.must(v.Open(v.ctx, v.url))
	v.until(`innerWidth == 1180 && document.querySelector("#gets svg") && document.querySelector(".places") && document.querySelector("#sizing .knee")`)
	var empty []string
	v.must(v.Eval(v.ctx, `[...document.querySelectorAll("section.card, .card")].flatMap(card => {
		const all = card.getBoundingClientRect(), name = card.querySelector("h2").textContent
		const low = Math.max(...[...card.querySelectorAll("p, li, svg, td, pre, li")].map(x => x.getBoundingClientRect().bottom))
		const narrow = [...card.querySelectorAll(".knee svg")].map(x => x.getBoundingClientRect()).filter(r => r.width > 0 && r.right < all.right - 60)
		return [...all.bottom - low > 60 ? [name + " ends " + (all.bottom - low) + " above its edge"] : [], ...narrow.map(r => name + ": a figure ends at " + r.right + " of " + all.right)]
	})`, &empty))
	for _, e := range empty {
		t.Error(e)
	}
	v.shoot("filled")
	v.content()
}
