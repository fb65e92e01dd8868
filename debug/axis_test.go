package debug

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestAxisHasWholeMinutes: charts label each sixth of their axis, those of more than three minutes in minutes.
func TestAxisHasWholeMinutes(t *testing.T) {
	m := regexp.MustCompile(`this\.axis = \[(.*?), span, (.*?)\]`).FindStringSubmatch(asset("charts.js"))
	if m == nil {
		t.Fatal("charts.js has no list of axes")
	}
	for list, unit := range map[string]int{m[1]: 1, m[2]: 60} {
		for _, axis := range strings.Split(list, ", ") {
			milliseconds, err := strconv.ParseFloat(axis, 64)
			if sixth := int(milliseconds) / 6000; err != nil || sixth%unit != 0 || sixth*6000 != int(milliseconds) {
				t.Errorf("a sixth of an axis of %s ms has a fraction", axis)
			}
		}
	}
}
