package debug

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// shopOrders has a handler as generated code has.
type shopOrders struct{ came, leave chan struct{} }

func (o shopOrders) PlaceOrder() {
	close(o.came)
	<-o.leave
}

func _Orders_CancelOrder_Handler(o shopOrders) { changeOrder(o) }

func changeOrder[O interface{ PlaceOrder() }](o O) { o.PlaceOrder() }

// TestGoroutines: the stacks of a method are those that have its handler, or what is generated for it.
func TestGoroutines(t *testing.T) {
	o := shopOrders{make(chan struct{}), make(chan struct{})}
	defer close(o.leave)
	go _Orders_CancelOrder_Handler(o)
	<-o.came
	h := HandlerOf(NewRegistry())
	get := func(query string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/debug/tarn/?format=goroutines"+query, nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %v", query, w.Code, w.Header())
		}
		return w.Body.String()
	}
	if all := get(""); !strings.Contains(all, "PlaceOrder") || !strings.Contains(all, "TestGoroutines") {
		t.Errorf("not all stacks: %s", all)
	}
	for query, found := range map[string]bool{
		"&method=/shop.Orders/PlaceOrder": true, "&method=PlaceOrder": true, "&method=/shop.Orders/CancelOrder": true, "&method=changeOrder": true,
		"&method=/shop.Orders/Place": false, "&method=Order": false, "&method=%3Cscript%3E": false, "&method=/": false,
	} {
		text := get(query)
		if strings.Contains(text, "debug.shopOrders.PlaceOrder") != found || strings.Contains(text, "TestGoroutines+") || found == strings.HasPrefix(text, "0 of ") {
			t.Errorf("%s: %s", query, text)
		}
	}
}
