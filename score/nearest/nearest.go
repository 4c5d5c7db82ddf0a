// Package nearest finds the name that somebody most likely meant, for errors about
// names that are not known.
//
// It is pure, and knows no names of its own.
package nearest

import "strings"

// longest is how many bytes of a word are looked at.
const longest = 64

// Name is the name with the smallest edit distance to word, less the letters that
// both begin with, ignoring case; "" when there are no names.
func Name(word string, names []string) string {
	best, distance := "", 2*longest
	for _, name := range names {
		a, b := short(word), short(name)
		if d := edits(a, b) - common(a, b); d < distance {
			best, distance = name, d
		}
	}
	return best
}

func short(word string) string {
	word = strings.ToLower(word)
	return word[:min(len(word), longest)]
}

// common is how many bytes two words begin with alike.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
