// Package binlog decides which calls are in a binary log and makes the entries (gRFC A16, in grpc-go's form).
// It uses no connection and no sink.
package binlog

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Limits says how much of a call is logged, in bytes of metadata and of each message.
type Limits struct{ Header, Message uint64 }

// Unlimited is a limit that truncates nothing.
const Unlimited = math.MaxUint64

// Filter says which methods are logged. The zero Filter logs none. It does not change after [ParseFilter].
type Filter struct {
	all      *Limits
	services map[string]Limits
	methods  map[string]Limits
	excluded map[string]bool
}

var (
	methodRule = regexp.MustCompile(`^([\w./]+)/(\w+|\*)(.+)?$`)
	limitRule  = regexp.MustCompile(`^\{(h(?::(\d+))?)?(;)?(m(?::(\d+))?)?\}$`)
)

// ParseFilter parses a filter in the syntax of GRPC_BINARY_LOG_FILTER: rules with commas between them, each
// "*", "service/*", "service/method" or "-service/method", the first three with limits behind them in braces:
// "{h}", "{h:256}", "{m:256}", "{h;m:256}". Method rules take precedence over service rules and those over
// "*". An empty filter logs nothing.
func ParseFilter(text string) (Filter, error) {
	f := Filter{services: map[string]Limits{}, methods: map[string]Limits{}, excluded: map[string]bool{}}
	if text == "" {
		return f, nil
	}
	for _, rule := range strings.Split(text, ",") {
		if err := f.add(rule); err != nil {
			return Filter{}, fmt.Errorf("rule %q: %w", rule, err)
		}
	}
	return f, nil
}

func (f *Filter) add(rule string) error {
	if rest, ok := strings.CutPrefix(rule, "*"); ok {
		l, err := parseLimits(rest)
		if err != nil {
			return err
		}
		if f.all != nil {
			return fmt.Errorf("there are two for all methods")
		}
		f.all = &l
		return nil
	}
	name, exclude := strings.CutPrefix(rule, "-")
	m := methodRule.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("it is none of *, service/*, service/method and -service/method")
	}
	service, method, limits := m[1], m[2], m[3]
	name = service + "/" + method
	if exclude {
		if method == "*" || limits != "" {
			return fmt.Errorf("only one method without limits can be excluded")
		}
		return f.claim(name, func() { f.excluded[name] = true })
	}
	l, err := parseLimits(limits)
	if err != nil {
		return err
	}
	if method != "*" {
		return f.claim(name, func() { f.methods[name] = l })
	}
	if _, ok := f.services[service]; ok {
		return fmt.Errorf("there are two for service %q", service)
	}
	f.services[service] = l
	return nil
}

// claim calls set unless a method has a rule already.
func (f *Filter) claim(method string, set func()) error {
	if _, ok := f.methods[method]; ok || f.excluded[method] {
		return fmt.Errorf("there are two for method %q", method)
	}
	set()
	return nil
}

func parseLimits(text string) (Limits, error) {
	if text == "" {
		return Limits{Unlimited, Unlimited}, nil
	}
	m := limitRule.FindStringSubmatch(text)
	if m == nil || m[1] == "" && m[4] == "" || (m[3] != "") != (m[1] != "" && m[4] != "") {
		return Limits{}, fmt.Errorf("%q is none of {h}, {h:n}, {m}, {m:n} and {h:n;m:n}", text)
	}
	header, err := parseLimit(m[1], m[2])
	if err != nil {
		return Limits{}, err
	}
	message, err := parseLimit(m[4], m[5])
	return Limits{header, message}, err
}

// parseLimit parses one limit; 0 when it is not named.
func parseLimit(named, number string) (uint64, error) {
	switch {
	case named == "":
		return 0, nil
	case number == "":
		return Unlimited, nil
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("limit %q is out of range", number)
	}
	return n, nil
}

// Find returns the limits of a method, "/service/method"; false when it is not logged.
func (f *Filter) Find(method string) (Limits, bool) {
	name, ok := strings.CutPrefix(method, "/")
	i := strings.LastIndexByte(name, '/')
	if !ok || i < 0 {
		return Limits{}, false
	}
	if l, ok := f.methods[name]; ok {
		return l, true
	}
	if f.excluded[name] {
		return Limits{}, false
	}
	if l, ok := f.services[name[:i]]; ok {
		return l, true
	}
	if f.all != nil {
		return *f.all, true
	}
	return Limits{}, false
}
