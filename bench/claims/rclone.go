package main

import (
	"fmt"
	"strings"
)

// rcloneTarget is how many times as fast as go-smb2 package smb/gosmb2 was to be below rclone.
const rcloneTarget = 1.3

// rcloneTable compares, from results/rclone/copy.txt, copies of rclone as it is shipped with those of rclone on smb/gosmb2.
func rcloneTable(r *results) string {
	var b strings.Builder
	b.WriteString("| copy | as shipped, s | with `smb/gosmb2`, s | ratio | ratio of processor time |\n|---|---|---|---|---|\n")
	rows := 0
	for _, mode := range []struct{ name, title string }{{"plain", "in the clear"}, {"signed", "signed"}, {"encrypted", "encrypted"}} {
		for _, files := range []struct{ name, title string }{{"large", "1 GiB"}, {"small", "2,000 files"}} {
			for _, op := range []string{"put", "get"} {
				of := func(peer, unit string) []float64 {
					return r.values[key{fmt.Sprintf("Copy/mode=%s/files=%s/op=%s", mode.name, files.name, op), peer, unit}]
				}
				shipped, ours := of("go-smb2", "ns/op"), of("tarn", "ns/op")
				if len(shipped) == 0 || len(ours) == 0 {
					continue
				}
				rows++
				fmt.Fprintf(&b, "| %s %s, %s | %s | %s | %s | %s |\n", op, files.title, mode.title, seconds(shipped), seconds(ours),
					verdictOf(shares(shipped, ours), rcloneTarget), medianAndRange(shares(of("go-smb2", "cpu-ns/op"), of("tarn", "cpu-ns/op")), ""))
			}
		}
	}
	if rows == 0 {
		return "Not measured yet.\n"
	}
	return b.String()
}

// seconds writes the median of nanoseconds and their range in seconds.
func seconds(ns []float64) string {
	var s []float64
	for _, v := range ns {
		s = append(s, v/1e9)
	}
	return medianAndRange(s, "")
}
