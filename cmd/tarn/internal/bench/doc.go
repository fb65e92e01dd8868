// Package bench is the command tarn bench: Tarn beside what programs use today, measured where it is
// run, in about a minute and a half.
//
// It is a short measurement. Contestants take turns, so that a machine that slows down
// slows all of them down, and medians of the turns are reported. Clients and servers share one
// process and the loopback interface. The nested module bench of the repository has the longer
// benchmarks, and the peers that this command cannot carry as dependencies.
package bench
