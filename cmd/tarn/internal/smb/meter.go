package smb

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// meter shows the progress of a copy: a bar on a terminal, a line at intervals elsewhere.
type meter struct {
	app      *app
	out      io.Writer
	terminal bool
	bar      *progressbar.ProgressBar // guarded by app.mu
	shown    int64                    // bytes that the bar has; guarded by app.mu
	verb     string
	total    int64
	files    int
	// present is how many of the files are in their place already; their bytes are not counted.
	present int
	begun   time.Time

	bytes atomic.Int64
	done  atomic.Int64 // files
	stop  chan struct{}
	ended chan struct{}
}

const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
)

// startMeter begins to show the progress of an action on the plan's files.
func (a *app) startMeter(p *plan, action string) *meter {
	m := &meter{app: a, out: a.std.Err, verb: past[action], total: p.total, files: len(p.jobs),
		begun: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	if action == "copy" {
		for _, j := range p.jobs {
			if j.present {
				m.present++
				m.total -= j.size
			}
		}
	}
	if f, ok := a.std.Err.(*os.File); ok {
		m.terminal = term.IsTerminal(int(f.Fd()))
	}
	if a.opts.quiet {
		m.out, m.terminal = io.Discard, false
	}
	m.bar = progressbar.NewOptions64(max(m.total, 1), progressbar.OptionSetWriter(m.drawing()), progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionFullWidth(),
		progressbar.OptionUseANSICodes(true), progressbar.OptionSetRenderBlankState(false))
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

// drawing is where the bar is drawn.
func (m *meter) drawing() io.Writer {
	if m.terminal {
		return m.out
	}
	return io.Discard
}

func (m *meter) run() {
	defer close(m.ended)
	every := lineEvery
	if m.terminal {
		every = barEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
			m.app.mu.Lock()
			m.show()
			m.app.mu.Unlock()
		}
	}
}

// clear erases the bar, so that another text can be written. The caller
// holds app.mu. A nil meter has no bar.
func (m *meter) clear() {
	if m != nil && m.shown > 0 {
		m.bar.Clear() // as the summary, the bar has no error that someone could act on
	}
}

// show draws the bar, or writes a line. The caller holds app.mu.
func (m *meter) show() {
	bytes := m.bytes.Load()
	if m.files > 1 {
		m.bar.Describe(fmt.Sprintf("%d of %d files", m.done.Load(), m.files))
	}
	m.bar.Add64(bytes - m.shown)
	m.shown = bytes
	if !m.terminal {
		fmt.Fprintln(m.out, m.text())
	}
}

// text is the progress in words.
func (m *meter) text() string {
	bytes := m.bytes.Load()
	rate := float64(bytes) / max(time.Since(m.begun).Seconds(), 1e-3)
	text := fmt.Sprintf("%3d%%  %s of %s  %s/s", percent(bytes, m.total), size(bytes), size(m.total), size(int64(rate)))
	if m.files > 1 {
		text += fmt.Sprintf("  %d of %d files", m.done.Load(), m.files)
	}
	if rate >= 1 && bytes < m.total {
		left := float64(m.total-bytes) / rate
		text += "  " + clock(time.Duration(min(left, 1e6)*float64(time.Second))) + " left"
	}
	return text
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
