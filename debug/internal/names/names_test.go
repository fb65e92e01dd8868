package names

import (
	"runtime"
	"slices"
	"testing"
)

func TestUnused(t *testing.T) {
	taken := map[string]bool{"a": true, "a 2": true, "b 1": true, "c 2": true, "c 3": true, "": true}
	for base, want := range map[string]string{
		"new": "new", "a": "a 3", "a 2": "a 3", "b 1": "b 2", "c 2": "c 4", "c": "c", "": " 2",
	} {
		if got := Unused(base, func(name string) bool { return taken[name] }); got != want {
			t.Errorf("%q: got %q, want %q", base, got, want)
		}
	}
}

func TestPublishersAreKeptApart(t *testing.T) {
	var s Space
	check := func(p *Publisher, names []string, want ...string) {
		t.Helper()
		pools, endpoints := p.Set(names, names)
		if !slices.Equal(pools, want) || !slices.Equal(endpoints, want) {
			t.Errorf("%q: got %q and %q, want %q", names, pools, endpoints, want)
		}
	}
	first, second, third := s.Publisher(), s.Publisher(), s.Publisher()
	check(first, []string{"a", "b"}, "a", "b")
	check(second, []string{"a", "a 2"}, "a 2", "a 3")
	check(first, []string{"b", "a"}, "b", "a")             // as before, in any order
	check(third, []string{"a"}, "a 4")                     // the first that is free
	check(first, []string{"b"}, "b")                       // "a" is free now
	check(second, []string{"a", "c"}, "a 2", "c")          // and yet a name that was given stays
	check(first, []string{"b", "a", "c"}, "b", "a", "c 2") // one that was given up is taken by its next user
	second.Close()
	check(third, []string{"c", "a"}, "c", "a 4")
	check(second, []string{"c"}, "c") // closed: it claims nothing
	runtime.KeepAlive([]*Publisher{first, second, third})
}

// The names of a publisher that is not referenced any more are free after a garbage collection.
func TestCollectedPublisher(t *testing.T) {
	var s Space
	first := s.Publisher()
	first.Set([]string{"a"}, nil)
	second := s.Publisher()
	second.Claim([]string{"a"}, nil)
	if pools, _ := second.Set([]string{"a"}, nil); pools[0] != "a 2" {
		t.Errorf("got %q while it is taken", pools)
	}
	runtime.KeepAlive(first)
	second.Close()
	first, second = nil, nil
	for range 3 { // no loop without a bound: it would run until a collection that Claim does not make
		third := s.Publisher()
		third.Claim([]string{"a"}, nil)
		if pools, _ := third.Set([]string{"a"}, nil); pools[0] == "a" {
			return
		}
		third.Close()
	}
	t.Error("three claims, each with a collection, did not free the name")
}
