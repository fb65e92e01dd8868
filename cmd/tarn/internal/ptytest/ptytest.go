// Package ptytest gives tests of the command a terminal. It has functions on Linux alone.
package ptytest
