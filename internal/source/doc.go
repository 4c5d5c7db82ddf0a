// Package source reads decisions from wherever they are: the admin APIs of one or
// several pickers, files and directories of them, standard input, and logs.
//
// The one idea: there is one reader. A text is taken line by line and each line
// for what it is, whatever the file is called: a decision as JSON, a line of our
// own log, a line of the log of llm-d's picker, or something else, which is
// skipped and counted. So the output of 'kubectl logs' can be read as it came.
//
//	src, err := source.Open("decisions/", source.Options{Warn: warn})
//	found, err := src.Find(ctx, "91c2f0a7", 1)
//
// Files that the recorder wrote are read by their index (see
// [record.WriteIndex]): of a million decisions only those in question. All else,
// compressed or not, is read from beginning to end, in memory that does not
// depend on its length.
//
// It does not explain, print or record, and it tails no files.
package source
