package main

import (
	"bytes"
	"testing"

	"github.com/tarn-go/tarn/sizing"
	"github.com/tarn-go/tarn/tarntest"
)

// TestPrograms: each program runs, frees every buffer, and writes a trace that can be read.
func TestPrograms(t *testing.T) {
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			r := newRecorder(tarntest.NewPool(t))
			note, err := p.run(r, 300)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if _, err := r.trace(note).WriteTo(&text); err != nil {
				t.Fatal(err)
			}
			got, err := sizing.ReadTrace(&text)
			if err != nil {
				t.Fatal(err)
			}
			o, err := sizing.Simulate(got, sizing.Replay{})
			if err != nil || o.Gets < 300 || len(got.Notes) != 1 {
				t.Errorf("%+v, %q, %v", o, got.Notes, err)
			}
		})
	}
}
