package debug

import (
	"strconv"
	"testing"

	"github.com/tarn-go/tarn"
)

// Each term's button opens its text within the window, and Escape closes it. No text is without a button.
func TestBrowserHelp(t *testing.T) {
	inBrowser(t)
	v := visitSource(t, registryOf(busyPool(t, tarn.PoolConfig{Name: "one", Check: tarn.CheckAll}).Pool))
	texts, shown := 0, map[string]bool{}
	for _, query := range []string{"", "?view=calls"} {
		for _, width := range []int{320, 1280} {
			v.must(v.Size(v.ctx, width, 800, 1))
			v.must(v.Open(v.ctx, v.url+query))
			v.until(`document.getElementById("state").textContent == "live" && innerWidth == ` + strconv.Itoa(width))
			v.key("p") // a part that is taken over would replace its buttons
			var helps []string
			v.must(v.Eval(v.ctx, `[...document.querySelectorAll("button.help")].map(b => b.getAttribute("popovertarget"))`, &helps))
			v.must(v.Eval(v.ctx, `document.querySelectorAll(".pop").length`, &texts))
			if len(helps) == 0 {
				t.Errorf("%q: no term has help", query)
			}
			for _, id := range helps {
				shown[id] = true
				v.must(v.Eval(v.ctx, `(() => {
					const button = document.querySelector("[popovertarget=`+id+`]");
					button.scrollIntoView({ block: "center" });
					button.click();
				})()`, nil))
				var missing string
				v.must(v.Eval(v.ctx, `(() => {
					const help = document.getElementById("`+id+`");
					if (!help) return "no text";
					if (!help.matches(":popover-open")) return "not open";
					const at = help.getBoundingClientRect();
					if (at.left < 0 || at.top < 0 || at.right > innerWidth || at.bottom > innerHeight) return "outside the window";
					const button = document.querySelector("[popovertarget=`+id+`]").getBoundingClientRect();
					const away = (low, high, from, to) => Math.max(0, from - high, low - to);
					if (away(at.left, at.right, button.left, button.right) > 12 || away(at.top, at.bottom, button.top, button.bottom) > 12) return "not at its button";
					return help.innerText.endsWith(".") ? "" : "no sentence";
				})()`, &missing))
				if missing != "" {
					t.Errorf("%q, %d wide: %s: %s", query, width, id, missing)
				}
				v.key("Escape")
				v.until(`!document.querySelector(":popover-open")`)
			}
		}
	}
	if len(shown) != texts {
		t.Errorf("%d of %d texts have a button: %v", len(shown), texts, shown)
	}
	v.content()
}

// A help that is open stays open when the part of its button is taken over, and what has the focus there keeps it.
func TestBrowserHelpStaysOpen(t *testing.T) {
	longInBrowser(t)
	one, two := busyPool(t, tarn.PoolConfig{Name: "one", Check: tarn.CheckAll}), busyPool(t, tarn.PoolConfig{Name: "two"})
	v := visit(t, one.Pool, two.Pool)
	v.must(v.Open(v.ctx, v.url+"?pool=one"))
	for _, at := range []string{"#tiles [popovertarget=help-use]", "#sizing [popovertarget=help-waste]", "#tabs a[href='?pool=two']", "#sizing [data-copy]"} {
		v.until(`document.querySelector("` + at + `")`)
		v.must(v.Eval(v.ctx, `(() => {
			const b = document.querySelector("`+at+`");
			b.closest("[data-live]").firstElementChild.dataset.old = "";
			b.focus();
			if (b.popoverTargetElement) b.click();
		})()`, nil))
		one.traffic(t, 3000)
		v.until(`!document.querySelector("[data-old]")`)
		v.until(`document.activeElement == document.querySelector("` + at + `")`)
		v.until(`!document.activeElement.popoverTargetElement || document.activeElement.popoverTargetElement.matches(":popover-open")`)
		v.key("Escape")
	}
	v.content()
}
