package smb

import "fmt"

// event is something that was done.
type event struct {
	Action string `json:"action"` // "copy", "skip", "verify"
	Source string `json:"source"`
	Target string `json:"target"`
	Bytes  int64  `json:"bytes"`
	Error  string `json:"error,omitempty"`
}

// event writes an event to standard output: in words, or as JSON.
func (a *app) event(e event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meter.clear()
	if a.opts.json {
		writeJSON(a.std.Out, e)
		return
	}
	fmt.Fprintf(a.std.Out, "%s %s to %s (%s)\n", e.Action, printable(e.Source), printable(e.Target), size(e.Bytes))
}
