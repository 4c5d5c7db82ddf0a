package metricview

// What a distribution of scores looks like.
const (
	ShapeBimodal = "bimodal" // two clusters: picks with a warm cache, and with a cold one
	ShapeLow     = "low"     // no score is high: the cache is not providing value
	ShapeSingle  = "single"
	ShapeFew     = "few" // too few scores to say
)

const (
	minScores = 20  // fewer have no shape
	minSide   = .10 // share of the scores on each side of the valley
	minPeak   = .05 // share of the scores in the bucket of a mode
	maxValley = .5  // density of the valley, of that of the lower mode
	lowScore  = .5  // nine scores in ten below it are low
)

// shape says whether scores have two modes. Buckets are of unequal width, so it is
// their density that is compared: two buckets are modes when between them there is
// one of less than half the density of either, with a tenth of the scores on each
// side of it.
func (d *Distribution) shape() {
	switch {
	case d == nil:
		return
	case d.Count < minScores || d.P90 == nil:
		d.Shape = ShapeFew
		return
	}
	bins := d.dense()
	left, right, depth := -1, -1, maxValley
	for i := range bins {
		for j := i + 2; j < len(bins); j++ {
			if v := valley(bins[i:j+1], d.Count); v < depth && sides(bins, i, j, d.Count) {
				left, right, depth = i, j, v
			}
		}
	}
	switch {
	case left >= 0:
		d.Shape, d.Modes = ShapeBimodal, []float64{bins[left].middle, bins[right].middle}
	case *d.P90 < lowScore:
		d.Shape, d.Modes = ShapeLow, []float64{highest(bins).middle}
	default:
		d.Shape, d.Modes = ShapeSingle, []float64{highest(bins).middle}
	}
}

// bin is a bucket of finite width.
type bin struct{ middle, count, density float64 }

func (d *Distribution) dense() (bins []bin) {
	lower := 0.0
	for _, b := range d.Buckets {
		if b.UpTo == nil || *b.UpTo <= lower {
			continue
		}
		bins = append(bins, bin{(lower + *b.UpTo) / 2, b.Count, b.Count / (*b.UpTo - lower)})
		lower = *b.UpTo
	}
	return bins
}

// valley is the least density between the first and the last bin, of the lower one
// of these; 1 when one of the two is no mode.
func valley(bins []bin, total float64) float64 {
	first, last := bins[0], bins[len(bins)-1]
	if first.count < minPeak*total || last.count < minPeak*total {
		return 1
	}
	least := bins[1].density
	for _, b := range bins[1 : len(bins)-1] {
		least = min(least, b.density)
	}
	return least / min(first.density, last.density)
}

// sides reports whether enough scores lie on each side of the valley's bottom.
func sides(bins []bin, i, j int, total float64) bool {
	bottom := i + 1
	for k := i + 1; k < j; k++ {
		if bins[k].density < bins[bottom].density {
			bottom = k
		}
	}
	left, right := 0.0, 0.0
	for k, b := range bins {
		switch {
		case k < bottom:
			left += b.count
		case k > bottom:
			right += b.count
		}
	}
	return left >= minSide*total && right >= minSide*total
}

func highest(bins []bin) (best bin) {
	for _, b := range bins {
		if b.density > best.density {
			best = b
		}
	}
	return best
}
