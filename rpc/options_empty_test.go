package rpc_test

import (
	"errors"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials/insecure"
)

// namedDialOption and namedServerOption are options of a program's own, as grpc-go's Empty options permit them.
type namedDialOption struct {
	rpc.EmptyDialOption
	name string
}

type namedServerOption struct {
	rpc.EmptyServerOption
	name string
}

// TestEmptyOptions: an option that a program embeds an Empty option in changes nothing, and a function that fails can return nil for an
// option, as with grpc-go.
func TestEmptyOptions(t *testing.T) {
	cc, err := rpc.NewClient("passthrough:///127.0.0.1:1", rpc.EmptyDialOption{}, namedDialOption{name: "own"},
		rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	cc.Close()
	rpc.NewServer(rpc.EmptyServerOption{}, namedServerOption{name: "own"}).Stop()

	if o, err := noOption(); o != nil || err == nil {
		t.Error("an option that is nil does not equal nil")
	}
	if o, err := noServerOption(); o != nil || err == nil {
		t.Error("an option of a server that is nil does not equal nil")
	}
}

func noOption() (rpc.DialOption, error) { return nil, errors.New("none") }

func noServerOption() (rpc.ServerOption, error) { return nil, errors.New("none") }

// TestOptionsCompare: programs' tests compare options, of which grpc-go's are pointers. Of functions a comparison panics.
func TestOptionsCompare(t *testing.T) {
	dial := rpc.WithUserAgent("program")
	if same := dial; same != dial || dial == rpc.WithUserAgent("program") {
		t.Error("an option equals another, or not itself")
	}
	server := rpc.MaxRecvMsgSize(1)
	if same := server; same != server || server == rpc.MaxRecvMsgSize(1) {
		t.Error("an option of a server equals another, or not itself")
	}
}
