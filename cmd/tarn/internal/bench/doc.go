// Package bench is the command tarn bench: Tarn compared with what programs use today, measured on the
// user's machine, in about a minute and a half.
//
// The measurement is short and less exact than benchmarks. Contestants are measured alternately, so that a
// machine that slows down slows all of them down, and medians of the turns are reported. Clients and servers share one
// process and the loopback interface. The nested module bench of the repository has the longer
// benchmarks, and the peers that this command does not have as dependencies.
package bench
