package rpc_test

import (
	"fmt"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestDurationsOfServiceConfigs: what grpc-go's parser takes.
func TestDurationsOfServiceConfigs(t *testing.T) {
	for text, valid := range map[string]bool{
		"1s": true, "1.5s": true, ".01s": true, "1.s": true, "0.000000001s": true,
		".s": false, "s": false, "": false, "1": false, "1.2.3s": false, "1m": false, "+1s": false, "0.0000000001s": false,
	} {
		cc, err := rpc.NewClient("127.0.0.1:1", rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithDefaultServiceConfig(fmt.Sprintf(`{"methodConfig":[{"name":[{}],"timeout":%q}]}`, text)))
		if err == nil {
			cc.Close()
		}
		if (err == nil) != valid {
			t.Errorf("a timeout of %q: %v", text, err)
		}
	}
}
