module github.com/tarn-go/tarn/smb

go 1.26.0

replace github.com/tarn-go/tarn => ..

require (
	github.com/tarn-go/tarn v0.0.0
	golang.org/x/crypto v0.59.0
)

require golang.org/x/sys v0.50.0 // indirect
