package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/tarn-go/tarn/debug"
)

// tall is a model of a pool with so many classes that were asked for, on a terminal of that size.
func tall(classes, width, height int) *model {
	p := debug.Pool{Name: "p", Gets: 10, InUse: 1 << 20, Peak: 2 << 20}
	for i := range classes {
		p.Classes = append(p.Classes, debug.Class{Size: 64 * (i + 1), Gets: 1})
	}
	s := &debug.Snapshot{Program: "svc", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Pools: []debug.Pool{p}}
	m := newModel(options{every: time.Second}, s, func() (*debug.Snapshot, error) { return s, nil })
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return m
}

// shown is what the terminal shows, line by line, without colours.
func shown(m *model) []string { return strings.Split(ansi.Strip(m.View().Content), "\n") }

func press(m *model, keys ...tea.Key) (quit bool) {
	for _, k := range keys {
		if _, next := m.Update(tea.KeyPressMsg(k)); next != nil {
			_, quit = next().(tea.QuitMsg)
		}
	}
	return quit
}

func letter(r rune) tea.Key { return tea.Key{Code: r, Text: string(r)} }

// The keys move the text between the title and the last line, which stay.
func TestScroll(t *testing.T) {
	m := tall(20, 80, 12)
	text := strings.Split(ansi.Strip(draw(m.view)), "\n")
	rest := text[1 : len(text)-1]
	for _, c := range []struct {
		name string
		key  tea.Key
		from int
	}{
		{"nothing", letter('x'), 0}, {"j", letter('j'), 1}, {"down", tea.Key{Code: tea.KeyDown}, 2}, {"k", letter('k'), 1},
		{"page down", tea.Key{Code: tea.KeyPgDown}, 11}, {"end", letter('G'), len(rest) - 10}, {"beyond the end", letter('j'), len(rest) - 10},
		{"page up", tea.Key{Code: tea.KeyPgUp}, len(rest) - 20}, {"home", letter('g'), 0}, {"before the beginning", tea.Key{Code: tea.KeyUp}, 0},
		{"space", tea.Key{Code: tea.KeySpace, Text: " "}, 10}, {"back", tea.Key{Code: 'b', Mod: tea.ModCtrl}, 0},
	} {
		press(m, c.key)
		got := shown(m)
		if len(got) != 12 || got[0] != text[0] || got[1] != rest[c.from] || got[10] != rest[c.from+9] {
			t.Errorf("%s: from %d\n%s", c.name, m.from, strings.Join(got, "\n"))
		}
		if want := fmt.Sprintf("%d–%d of %d", c.from+1, c.from+10, len(rest)); !strings.HasPrefix(got[11], want) {
			t.Errorf("%s: the last line is %q, want %s", c.name, got[11], want)
		}
	}
}

func TestQuitKeys(t *testing.T) {
	for name, k := range map[string]tea.Key{"q": letter('q'), "Escape": {Code: tea.KeyEscape}, "Ctrl-C": {Code: 'c', Mod: tea.ModCtrl}} {
		if !press(tall(3, 80, 24), k) {
			t.Errorf("%s does not quit", name)
		}
	}
	m := tall(3, 80, 24)
	if press(m, letter('s')) || m.view.order != byRate || !strings.Contains(shown(m)[23], "sort: rate") {
		t.Errorf("s: sorted by %v", m.view.order)
	}
	if press(m, letter('s'), letter('s')) || m.view.order != bySize {
		t.Errorf("sss: sorted by %v", m.view.order)
	}
}

// The view has as many lines as the terminal, and none is wider.
func TestResize(t *testing.T) {
	m := tall(40, 80, 24)
	press(m, letter('G'))
	for _, size := range [][2]int{{120, 50}, {60, 20}, {31, 8}, {20, 5}, {20, 3}, {80, 24}} {
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		got := shown(m)
		if len(got) != size[1] {
			t.Errorf("%v: %d lines", size, len(got))
		}
		for _, line := range got {
			if n := lipgloss.Width(line); n > size[0] {
				t.Errorf("%v: a line has %d columns: %s", size, n, line)
			}
		}
		if !strings.HasPrefix(got[0], "tarn top") {
			t.Errorf("%v: the title is %q", size, got[0])
		}
	}
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 200})
	if got := shown(m); !strings.HasPrefix(got[199], "s sort") || got[1] != "" || strings.TrimSpace(got[2]) == "" {
		t.Errorf("what fits a terminal is scrolled, or is not all shown: %q … %q", got[1:3], got[199])
	}
}

// A service that is gone is named in the last line, and its figures stay until it is back; it is asked again and again.
func TestServerGoneAndBack(t *testing.T) {
	var gone atomic.Bool
	url, _ := service(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			http.Error(w, "restarting", http.StatusServiceUnavailable)
			return
		}
		resp, err := http.Get(url + "?" + r.URL.RawQuery)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		io.Copy(w, resp.Body)
	}))
	defer server.Close()
	o := options{url: server.URL, every: time.Millisecond}
	first, err := look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(o, first, func() (*debug.Snapshot, error) { return look(t.Context(), o) })
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	round := func() string {
		t.Helper()
		_, ask := m.Update(due{})
		_, next := m.Update(ask())
		if _, ok := next().(due); !ok {
			t.Error("it is not asked again")
		}
		return strings.Join(shown(m), "\n")
	}
	gone.Store(true)
	for range 2 {
		if text := round(); !strings.Contains(text, "503") || !strings.Contains(text, "in use") || m.view.now != first {
			t.Errorf("gone:\n%s", text)
		}
	}
	gone.Store(false)
	if text := round(); strings.Contains(text, "503") || !strings.Contains(text, "q quit") || m.view.now == first || m.view.before != first {
		t.Errorf("back:\n%s", text)
	}
	m.Update(answer{err: errors.New("gone\x1b[2J")})
	if text := m.View().Content; strings.Contains(text, "\x1b[2J") || !strings.Contains(text, "gone") {
		t.Errorf("an escape sequence of the service reaches the terminal: %q", text)
	}
}

// drawn is what a whole program writes for m on a terminal with those colours, until q.
func drawn(t *testing.T, m *model, profile colorprofile.Profile) string {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(strings.NewReader("jkq")), tea.WithOutput(&out),
		tea.WithWindowSize(60, 20), tea.WithColorProfile(profile), tea.WithoutSignalHandler())
	if _, err := program.Run(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A terminal without colours gets none, and neither does one of a user who wants none. Otherwise the used bytes of a pool are cyan.
func TestColours(t *testing.T) {
	const cyan = "\x1b[36m"
	if text := drawn(t, tall(3, 60, 20), colorprofile.ANSI); !strings.Contains(text, cyan) || !strings.Contains(text, "tarn top") {
		t.Errorf("16 colours: %q", text)
	}
	if text := drawn(t, tall(3, 60, 20), colorprofile.ASCII); strings.Contains(text, cyan) || !strings.Contains(text, "tarn top") {
		t.Errorf("no colours: %q", text)
	}
	if p := colorprofile.Env([]string{"TERM=xterm", "NO_COLOR=1"}); p > colorprofile.ASCII {
		t.Errorf("NO_COLOR is %v", p)
	}
}
