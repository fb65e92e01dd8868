package browser

import (
	"context"
	"fmt"
)

// smallText lists the texts whose height in pixels, with the scale of the drawing they are in, is below the format's
// argument.
const smallText = `[...document.querySelectorAll("body *")].
	filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()) && e.getClientRects().length).
	map(e => [parseFloat(getComputedStyle(e).fontSize) * (e.getScreenCTM ? e.getScreenCTM().a : 1), e.textContent.trim().slice(0, 40)]).
	filter(([size]) => size < %g).map(([size, text]) => size.toFixed(1) + " pixels: " + text)`

// SmallText returns the texts of the open page that are shown in fewer than least pixels.
func (b *Browser) SmallText(ctx context.Context, least float64) ([]string, error) {
	var found []string
	err := b.Eval(ctx, fmt.Sprintf(smallText, least), &found)
	return found, err
}

// violations runs axe-core, which the page has.
const violations = `axe.run().then(r => r.violations.flatMap(x => x.nodes.map(n => x.id + ": " + n.html.slice(0, 120) + " " + n.failureSummary.split("\n")[1])))`

// Violations runs axe-core, of which script is the text, on the open page and returns what it finds.
func (b *Browser) Violations(ctx context.Context, script string) ([]string, error) {
	if err := b.Eval(ctx, script+"; true", nil); err != nil {
		return nil, err
	}
	var found []string
	err := b.Eval(ctx, violations, &found)
	return found, err
}
