package smb

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// meter shows the progress of a copy: a bar on a terminal, a line at intervals elsewhere.
type meter struct {
	app   *app
	out   io.Writer
	fd    int // of the terminal; -1: none
	verb  string
	total int64
	files int
	// present is how many of the files are in their place already; their bytes are not counted.
	present int
	begun   time.Time

	bytes atomic.Int64
	done  atomic.Int64 // files
	shown bool         // a bar is on the line; guarded by app.mu
	stop  chan struct{}
	ended chan struct{}

	// rate is a moving average in bytes a second. Only the goroutine that shows it uses it.
	rate     float64
	lastSeen int64
	lastTime time.Time
}

const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
)

// startMeter begins to show the progress of an action on the plan's files.
func (a *app) startMeter(p *plan, action string) *meter {
	m := &meter{app: a, out: a.std.Err, fd: -1, verb: past[action], total: p.total, files: len(p.jobs),
		begun: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	if action == "copy" {
		for _, j := range p.jobs {
			if j.present {
				m.present++
				m.total -= j.size
			}
		}
	}
	m.lastTime = m.begun
	if f, ok := a.std.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		m.fd = int(f.Fd())
	}
	if a.opts.quiet {
		m.out = io.Discard
	}
	a.mu.Lock()
	a.meter = m
	a.mu.Unlock()
	go m.run()
	return m
}

// stopMeter ends it with a line that sums up.
func (a *app) stopMeter(m *meter) {
	close(m.stop)
	<-m.ended
	a.mu.Lock()
	defer a.mu.Unlock()
	m.clear()
	a.meter = nil
	spent := time.Since(m.begun)
	bytes := m.bytes.Load()
	there := ""
	if m.present > 0 {
		there = fmt.Sprintf(" (%d already there)", m.present)
	}
	fmt.Fprintf(m.out, "%s %d of %d files%s, %s in %s, %s/s\n", m.verb, m.done.Load(), m.files, there,
		size(bytes), clock(spent), size(int64(float64(bytes)/max(spent.Seconds(), 1e-3))))
}

// past are the verbs of the summary.
var past = map[string]string{"copy": "copied", "verify": "verified"}

// add counts bytes. Any goroutine.
func (m *meter) add(n int64) { m.bytes.Add(n) }

// file counts a file. Any goroutine.
func (m *meter) file() { m.done.Add(1) }

func (m *meter) run() {
	defer close(m.ended)
	every := lineEvery
	if m.fd >= 0 {
		every = barEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case now := <-tick.C:
			m.app.mu.Lock()
			m.show(now)
			m.app.mu.Unlock()
		}
	}
}

// clear erases the bar, so that another text can be written. The caller
// holds app.mu. A nil meter has no bar.
func (m *meter) clear() {
	if m != nil && m.shown {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.shown = false
	}
}

func (m *meter) show(now time.Time) {
	bytes := m.bytes.Load()
	m.measure(bytes, now)
	if m.fd < 0 {
		fmt.Fprintln(m.out, m.text(bytes))
		return
	}
	width, _, err := term.GetSize(m.fd)
	if err != nil || width < 20 {
		width = 80
	}
	fmt.Fprintf(m.out, "\r%s\x1b[K", m.bar(bytes, width-1))
	m.shown = true
}

func (m *meter) measure(bytes int64, now time.Time) {
	if dt := now.Sub(m.lastTime).Seconds(); dt > 0 {
		recent := float64(bytes-m.lastSeen) / dt
		weight := min(dt/3, 1) // the weight of older rates decays over about three seconds
		if m.rate == 0 {
			weight = 1
		}
		m.rate += weight * (recent - m.rate)
	}
	m.lastSeen, m.lastTime = bytes, now
}

// text is the progress in words.
func (m *meter) text(bytes int64) string {
	s := fmt.Sprintf("%3d%%  %s of %s  %s/s", percent(bytes, m.total), size(bytes), size(m.total), size(int64(m.rate)))
	if m.files > 1 {
		s += fmt.Sprintf("  %d of %d files", m.done.Load(), m.files)
	}
	if m.rate >= 1 && bytes < m.total {
		left := float64(m.total-bytes) / m.rate
		s += "  " + clock(time.Duration(min(left, 1e6)*float64(time.Second))) + " left"
	}
	return s
}

// bar is a bar of as much of width as the text leaves, and the text.
func (m *meter) bar(bytes int64, width int) string {
	text := m.text(bytes)
	room := width - len(text) - 3
	if room < 8 {
		return text[:min(len(text), width)]
	}
	room = min(room, 40)
	full := room * percent(bytes, m.total) / 100
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "] " + text
}

func percent(n, of int64) int {
	if of <= 0 {
		return 100
	}
	return int(min(float64(n)/float64(of), 1) * 100)
}

// size formats a number of bytes with a unit.
func size(n int64) string {
	v, unit := float64(n), 0
	for v >= 1000 && unit < 5 {
		v /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", v, " KMGTP"[unit])
}

// clock is a duration as hours, minutes and seconds.
func clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
