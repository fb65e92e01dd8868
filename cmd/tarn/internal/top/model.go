package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
)

// model is what a terminal shows. Package bubbletea calls its methods, on one goroutine, and draws what View returns.
type model struct {
	look   func() (*debug.Snapshot, error)
	every  time.Duration
	view   view
	height int // lines of the terminal
	from   int // lines of the text left out below its first one, the title
}

// due is the message that it is time to look.
type due struct{}

// answer is the message with a service's answer.
type answer struct {
	snapshot *debug.Snapshot
	err      error
}

// runTerminal redraws until ctx ends or the user quits by a key. It restores the terminal's state.
func runTerminal(ctx context.Context, o options, first *debug.Snapshot, out *os.File, in io.Reader) error {
	m := newModel(o, first, func() (*debug.Snapshot, error) { return look(ctx, o) })
	if file, ok := in.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		in = nil // no keys
	}
	// The command has its signals in ctx. With WithContext, bubbletea would close its reader of keys while a goroutine reads.
	program := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	defer context.AfterFunc(ctx, program.Quit)()
	_, err := program.Run()
	return err
}

func newModel(o options, first *debug.Snapshot, look func() (*debug.Snapshot, error)) *model {
	return &model{look: look, every: o.every, height: 24,
		view: view{now: first, order: o.order, styles: colours(), history: map[string][]float64{}}}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.wait() }

func (m *model) wait() tea.Cmd { return tea.Tick(m.every, func(time.Time) tea.Msg { return due{} }) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.view.width, m.height = max(msg.Width, narrowest), msg.Height
	case tea.KeyPressMsg:
		next = m.press(msg.String())
	case due:
		// A service that does not answer delays neither a key nor the end: bubbletea runs this on another goroutine.
		next = func() tea.Msg {
			s, err := m.look()
			return answer{s, err}
		}
	case answer:
		next = m.wait()
		if msg.err != nil {
			m.view.trouble = msg.err.Error() // the service may be restarting: say so and try again
			break
		}
		m.view.before, m.view.now, m.view.trouble = m.view.now, msg.snapshot, ""
		m.view.remember()
	}
	return m, next
}

// page is how many lines of the text, without the title, fit between it and the terminal's last line.
func (m *model) page() int { return max(m.height-2, 1) }

func (m *model) press(key string) tea.Cmd {
	switch key {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "s":
		m.view.order = (m.view.order + 1) % orders
	case "up", "k":
		m.from--
	case "down", "j":
		m.from++
	case "pgup", "ctrl+b":
		m.from -= m.page()
	case "pgdown", "ctrl+f", "space":
		m.from += m.page()
	case "home", "g":
		m.from = 0
	case "end", "G":
		m.from = len(m.lines())
	}
	m.from = max(min(m.from, len(m.lines())-1-m.page()), 0)
	return nil
}

func (m *model) lines() []string {
	return strings.Split(strings.TrimSuffix(draw(m.view), "\n"), "\n")
}

// View implements tea.Model. The title and the last line stay where they are, whatever of the text between them is shown.
func (m *model) View() tea.View {
	lines := m.lines()
	rest := lines[1:]
	from := max(min(m.from, len(rest)-m.page()), 0) // the text may have become shorter
	shown := make([]string, m.page())
	copy(shown, rest[from:])
	v := tea.NewView(lines[0] + "\n" + strings.Join(shown, "\n") + "\n" + m.lastLine(from, len(rest)))
	v.AltScreen = true
	return v
}

// lastLine says what is wrong, or else which of so many lines are shown, where not all are, and what the keys do.
func (m *model) lastLine(from, lines int) string {
	if m.view.trouble != "" {
		return m.view.styles.bad.Render(cut(fetch.Clean(m.view.trouble), m.view.columns()))
	}
	where := ""
	if lines > m.page() {
		where = fmt.Sprintf("%d–%d of %d  ↑↓ scroll  ", from+1, from+m.page(), lines)
	}
	return m.view.styles.dim.Render(cut(where+"s sort: "+m.view.order.String()+"  q quit", m.view.columns()))
}
