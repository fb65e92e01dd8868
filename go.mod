module github.com/tarn-go/tarn

go 1.26.0

require (
	golang.org/x/net v0.60.0
	golang.org/x/sys v0.48.0
)

require golang.org/x/text v0.42.0 // indirect
