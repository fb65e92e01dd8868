package gosmb2

import (
	_ "github.com/cloudsoda/go-smb2"
	_ "github.com/hirochachacha/go-smb2"
	_ "github.com/stretchr/testify/require" // go-smb2's suite needs it

	_ "github.com/tarn-go/tarn/smb/gosmb2"
	_ "github.com/tarn-go/tarn/smb/krb5/gosmb2"
)
