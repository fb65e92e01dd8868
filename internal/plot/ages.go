package plot

// Ages draws side by side how many of something are younger than a second, a minute, ten minutes, and older. The whole is as wide
// for any number of them.
func Ages(counts [4]int) string {
	const width, height = 72, 18
	all := 0
	for _, n := range counts {
		all += n
	}
	var s svg
	s.addf(`<svg viewBox="0 0 %d %d" role="img" aria-label="ages">`, width, height)
	x := 0.0
	for band, n := range counts {
		if n == 0 {
			continue
		}
		w := max(width*float64(n)/float64(all), 2)
		s.addf(`<rect class="age%d" x="%.1f" width="%.1f" height="%d"><title>%d %s</title></rect>`, band, x, max(w-1, 1), height, n,
			[...]string{"younger than a second", "younger than a minute", "younger than ten minutes", "older"}[band])
		x += w
	}
	s.addf(`</svg>`)
	return s.b.String()
}
