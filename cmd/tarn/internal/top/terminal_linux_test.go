package top

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/ptytest"
	"github.com/tarn-go/tarn/debug"
)

// screen is what a terminal shows after the escape sequences that the command writes.
type screen struct {
	columns     int
	lines       [][]rune
	row, column int
	overflowed  string // the first line that was longer than the terminal is wide
	other       bool   // the other screen is shown, not the shell's
}

var sequence = regexp.MustCompile(`^\x1b\[(\??)([0-9;]*)([A-Za-z])`)

func (s *screen) write(t *testing.T, text string) {
	for text != "" {
		if m := sequence.FindStringSubmatch(text); m != nil {
			s.control(t, m[1]+m[3], m[2])
			text = text[len(m[0]):]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		switch {
		case r == '\r':
			s.column = 0
		case r == '\n':
			s.row++
		case r < ' ' || s.row >= len(s.lines):
			t.Fatalf("%q in line %d of %d", r, s.row, len(s.lines))
		default:
			for len(s.lines[s.row]) <= s.column {
				s.lines[s.row] = append(s.lines[s.row], ' ')
			}
			s.lines[s.row][s.column] = r
			if s.column++; s.column > s.columns && s.overflowed == "" {
				s.overflowed = string(s.lines[s.row])
			}
		}
	}
}

func (s *screen) control(t *testing.T, name, numbers string) {
	switch name {
	case "H":
		s.row, s.column = 0, 0
		if line, _, ok := strings.Cut(numbers, ";"); ok {
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			s.row = n - 1
		}
	case "K":
		s.column = min(s.column, s.columns-1) // a full line leaves the cursor on its last character
		s.lines[s.row] = s.lines[s.row][:min(s.column, len(s.lines[s.row]))]
	case "J":
		s.control(t, "K", "")
		for i := s.row + 1; i < len(s.lines); i++ {
			s.lines[i] = nil
		}
	case "?h":
		s.other = s.other || numbers == "1049"
	case "?l":
		s.other = s.other && numbers != "1049"
	case "m":
	default:
		t.Fatalf("sequence %s", name)
	}
}

func (s *screen) String() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(string(line) + "\n")
	}
	return b.String()
}

// until reads what the command draws until the screen is as wanted.
func (s *screen) until(t *testing.T, drawn <-chan string, wanted func(text string) bool) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for !wanted(s.String()) {
		select {
		case text := <-drawn:
			s.write(t, text)
		case <-timeout:
			t.Fatalf("after 30 seconds the screen is\n%s", s)
		}
	}
}

// clock is the first line, which fills the terminal's last column.
var clock = regexp.MustCompile(`^tarn top .* \d\d:\d\d:\d\d\n`)

// lastHolder is the last line of the text: which line of program took a reference, and when.
var lastHolder = regexp.MustCompile(`(?m)test\.go:\d+, oldest [0-9.a-z]+$`)

// On a terminal of 60 columns and 20 lines no line is wrapped, every class can be scrolled to, the last line says what is
// shown and how it is sorted, and the terminal is left as it was found. The service does not answer the second request: the
// keys work nevertheless.
func TestTerminal(t *testing.T) {
	keys, tty := ptytest.Open(t, 60, 20)
	url := program(t)
	done := make(chan int)
	go func() {
		done <- Run(t.Context(), []string{"-every", "500ms", url}, cli.Streams{In: tty, Out: tty, Err: tty})
	}()
	drawn := make(chan string, 1000)
	go func() {
		var text [4096]byte
		left := 0 // of a character or sequence that a read cut
		for {
			n, err := keys.Read(text[left:])
			if err != nil {
				return
			}
			n += left
			end := whole(text[:n])
			drawn <- string(text[:end])
			left = copy(text[:], text[end:n])
		}
	}()
	s := &screen{columns: 60, lines: make([][]rune, 20)}
	press := func(sent string) {
		t.Helper()
		if _, err := keys.WriteString(sent); err != nil {
			t.Fatal(err)
		}
	}
	s.until(t, drawn, func(text string) bool {
		return clock.MatchString(text) && strings.Contains(text, "1–18 of ") && strings.Contains(text, "sort: size")
	})
	if !s.other || ptytest.Echoes(tty) {
		t.Error("the shell's screen is drawn on, or what is typed is shown")
	}
	press("s")
	s.until(t, drawn, func(text string) bool { return strings.Contains(text, "sort: rate") })
	press("\x1b[B\x1b[B\x1b[B") // of a key that is held down
	s.until(t, drawn, func(text string) bool { return strings.Contains(text, "4–21 of ") })
	press("G")
	s.until(t, drawn, func(text string) bool { return lastHolder.MatchString(text) })
	press("gss")
	s.until(t, drawn, func(text string) bool {
		return strings.Contains(text, "1–18 of ") && strings.Contains(text, "sort: size")
	})
	press("q")
	if status := <-done; status != cli.OK {
		t.Errorf("status %d", status)
	}
	s.until(t, drawn, func(string) bool { return !s.other })
	if s.overflowed != "" {
		t.Errorf("wider than 60 columns: %q", s.overflowed)
	}
	if !ptytest.Echoes(tty) {
		t.Error("what is typed is not shown again")
	}
}

// whole is the length of text without a character or an escape sequence at its end that is cut.
func whole(text []byte) int {
	end := len(text)
	if i := strings.LastIndexByte(string(text), 0x1b); i >= 0 && !sequence.Match(text[i:]) {
		end = i
	}
	for i := 1; i <= min(utf8.UTFMax, end); i++ {
		if c := text[end-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[end-i : end]) {
				end -= i
			}
			break
		}
	}
	return end
}

// program serves the page of two pools with long names, many classes, buffers in use and all troubles. It leaves the
// second request unanswered. Later ones, which the command sends when it has given that one up after ten seconds, are answered:
// on a slow machine the keys may take longer, and the last line shows the order again when an answer has replaced the error.
func program(t *testing.T) (url string) {
	t.Helper()
	var pools []*tarn.Pool
	for i := range 2 {
		p, err := tarn.NewPool(tarn.PoolConfig{Name: fmt.Sprintf("the receive buffers of connections to storage nodes, number %d", i), Check: tarn.CheckAll, Budget: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for size := 64; size < 4<<20; size += size / 8 {
			p.Get(size).Free()
		}
		pools = append(pools, p)
		held := p.Get(2 << 20)
		t.Cleanup(held.Free)
	}
	page := debug.Handler(pools...)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 2 {
			<-r.Context().Done()
			return
		}
		page.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/debug/tarn/"
}
