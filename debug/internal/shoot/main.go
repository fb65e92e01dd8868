// Command shoot takes the screenshots of the manual from a running debug page, such as the demo's:
//
//	go run ./debug/internal/demo &
//	go run ./debug/internal/shoot -url "http://127.0.0.1:8080/debug/tarn/?pool=storage" -dir docs/images
//
// and, for the page of calls, with -url "http://127.0.0.1:8080/debug/tarn/?view=calls" -prefix debug-calls-.
//
// It watches for a while first, so that the live charts have something to show.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/tarn-go/tarn/internal/browser"
)

func main() {
	log.SetFlags(0)
	url := flag.String("url", "http://127.0.0.1:8080/debug/tarn/?pool=storage", "the page")
	dir := flag.String("dir", "docs/images", "where pictures go")
	prefix := flag.String("prefix", "debug-", "what their names begin with")
	watch := flag.Duration("watch", 100*time.Second, "how long to watch first")
	flag.Parse()
	if err := shoot(*url, *dir, *prefix, *watch); err != nil {
		log.Fatal("shoot: ", err)
	}
}

func shoot(url, dir, prefix string, watch time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), watch+2*time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp("", "shoot")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	b, err := browser.Start(ctx, profile, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Open(ctx, url); err != nil {
		return err
	}
	if err := pause(ctx, b, watch); err != nil {
		return err
	}
	for _, s := range []struct {
		name, scheme string
		width        int
	}{
		{"light", "light", 1180}, {"dark", "dark", 1180},
		{"phone-light", "light", 390}, {"phone-dark", "dark", 390},
	} {
		if err := picture(ctx, b, s.scheme, s.width, filepath.Join(dir, prefix+s.name+".png")); err != nil {
			return err
		}
	}
	return nil
}

func picture(ctx context.Context, b *browser.Browser, scheme string, width int, file string) error {
	if err := b.Size(ctx, width, 800, 1); err != nil {
		return err
	}
	if err := b.Scheme(ctx, scheme); err != nil {
		return err
	}
	// The charts redraw for the new width with the next figures.
	if err := pause(ctx, b, 2*time.Second); err != nil {
		return err
	}
	png, err := b.Screenshot(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}

// pause lets the page run.
func pause(ctx context.Context, b *browser.Browser, d time.Duration) error {
	return b.Eval(ctx, fmt.Sprintf("new Promise(done => setTimeout(done, %d))", d.Milliseconds()), nil)
}
