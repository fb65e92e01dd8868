package rclone

import (
	"reflect"
	"testing"

	"github.com/rclone/rclone/backend/smb"
	"github.com/rclone/rclone/fs"
)

// TestOptionsOfSMB compares the options with those of rclone's backend smb: a remote changes its backend by one word.
func TestOptionsOfSMB(t *testing.T) {
	var _ *smb.Fs // which registers it
	theirs, err := fs.Find("smb")
	if err != nil {
		t.Fatal(err)
	}
	own, err := fs.Find(Type)
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]fs.Option{}
	for _, o := range own.Options {
		ours[o.Name] = o
	}
	if len(theirs.Options) < 13 {
		t.Errorf("rclone's backend has %d options", len(theirs.Options))
	}
	for _, want := range theirs.Options {
		got, ok := ours[want.Name]
		if !ok {
			t.Errorf("there is no option %s", want.Name)
			continue
		}
		want.Help, got.Help = "", ""
		if got.Provider, got.ShortOpt = want.Provider, want.ShortOpt; !reflect.DeepEqual(got.Default, want.Default) ||
			got.Required != want.Required || got.IsPassword != want.IsPassword || got.Advanced != want.Advanced || got.Sensitive != want.Sensitive {
			t.Errorf("%+v, and with smb %+v", got, want)
		}
	}
}
