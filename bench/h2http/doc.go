// Package h2http measures programs on net/http's HTTP/2 and on Tarn's: connect-go's client and
// handler. What needs no other module is measured by "tarn bench http".
package h2http
