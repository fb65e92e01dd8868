// Command shoot takes the screenshots of the manual from a running debug page, such as the demo's:
//
//	go run ./debug/internal/demo &
//	go run ./debug/internal/shoot -url http://127.0.0.1:8080/debug/tarn/ -dir docs/images
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

	"github.com/tarn-go/tarn/debug/internal/browser"
)

func main() {
	log.SetFlags(0)
	url := flag.String("url", "http://127.0.0.1:8080/debug/tarn/", "the page")
	dir := flag.String("dir", "docs/images", "where pictures go")
	watch := flag.Duration("watch", 100*time.Second, "how long to watch first")
	flag.Parse()
	if err := shoot(*url, *dir, *watch); err != nil {
		log.Fatal("shoot: ", err)
	}
}

func shoot(url, dir string, watch time.Duration) error {
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
		scale        float64
	}{
		{"debug-light", "light", 1180, 1}, {"debug-dark", "dark", 1180, 1},
		{"debug-phone-light", "light", 390, 1}, {"debug-phone-dark", "dark", 390, 1},
	} {
		if err := picture(ctx, b, s.scheme, s.width, s.scale, filepath.Join(dir, s.name+".png")); err != nil {
			return err
		}
	}
	return nil
}

func picture(ctx context.Context, b *browser.Browser, scheme string, width int, scale float64, file string) error {
	if err := b.Size(ctx, width, 800, scale); err != nil {
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
