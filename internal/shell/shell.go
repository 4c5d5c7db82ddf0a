// Package shell writes command lines that people are told to type.
//
// The one idea: every word is quoted that a POSIX shell would not take as it is, so that
// a name out of a kubeconfig or a cluster is never run. It starts nothing, and does not
// make a word fit for a terminal.
package shell

import "strings"

// Line joins the words of a command.
func Line(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// safe are the characters that no shell gives a meaning.
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+"

// Quote is one word, quoted where it needs to be.
func Quote(word string) string {
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
