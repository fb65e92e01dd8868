// Package preset sets fields of a response's header without its map, if the ResponseWriter can: the map, its values
// and their way into a header list cost as much as the rest of a short response.
package preset

import "net/http"

// Field is what Header()[Key] is to be. Key is in canonical form, and Values are not changed by anyone.
type Field struct {
	Key    string
	Values []string
}

// Writer is a ResponseWriter that takes fields. Its Header contains them.
type Writer interface{ Preset(Field) }

// Set does what w.Header()[key] = values does.
func Set(w http.ResponseWriter, key string, values []string) {
	if p, ok := w.(Writer); ok {
		p.Preset(Field{key, values})
		return
	}
	w.Header()[key] = values
}
