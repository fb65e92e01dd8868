module github.com/tarn-go/tarn/smb/afero

go 1.26.0

replace (
	github.com/tarn-go/tarn => ../..
	github.com/tarn-go/tarn/smb => ..
)

require (
	github.com/spf13/afero v1.15.0
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/smb v0.0.0
)

require (
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)
