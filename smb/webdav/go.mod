module github.com/tarn-go/tarn/smb/webdav

go 1.26.0

replace github.com/tarn-go/tarn => ../..

require (
	github.com/tarn-go/tarn v0.0.0-00010101000000-000000000000
	golang.org/x/net v0.57.0
)

require (
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
