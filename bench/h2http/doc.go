// Package h2http measures programs on net/http's HTTP/2 and on Tarn's: connect-go's client and
// handler. "tarn bench http" measures net/http and Tarn without other modules.
package h2http
