// SMB benchmarks beside go-smb2. The path lies below smb, not below bench, so that the
// benchmarks may use smb's internal packages. Never published.
module github.com/tarn-go/tarn/smb/bench

go 1.26.0

require (
	github.com/cloudsoda/go-smb2 v0.0.0-20260803221621-0b399b9d036c
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/smb v0.0.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/cloudsoda/sddl v0.0.0-20250224235906-926454e91efc // indirect
	github.com/geoffgarside/ber v1.1.0 // indirect
	github.com/hashicorp/go-uuid v1.0.3 // indirect
	github.com/jcmturner/aescts/v2 v2.0.0 // indirect
	github.com/jcmturner/dnsutils/v2 v2.0.0 // indirect
	github.com/jcmturner/gofork v1.7.6 // indirect
	github.com/jcmturner/goidentity/v6 v6.0.1 // indirect
	github.com/jcmturner/gokrb5/v8 v8.4.4 // indirect
	github.com/jcmturner/rpc/v2 v2.0.3 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/net v0.62.0 // indirect
)

replace (
	github.com/tarn-go/tarn => ../../
	github.com/tarn-go/tarn/smb => ../../smb
)
