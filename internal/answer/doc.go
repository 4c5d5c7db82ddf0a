// Package answer watches a pod's answer that passes by on its way to the client:
// for what the engine says of its tokens, and for the name of the model.
//
// The one idea: an answer is never held. It comes in pieces that are cut
// anywhere, a scanner steps over each once, and all that is remembered between
// pieces is where in the JSON, or in which line of the event stream, the next
// byte stands.
//
//	f := answer.FormatOf(contentType, contentEncoding)
//	usage := answer.NewUsageReader(f)
//	renamer := answer.NewRenamer(f, "org/base", "prod")
//	for piece := range pieces {
//		usage.Watch(piece)
//		out = renamer.Append(out[:0], piece)
//		…
//	}
//	out = renamer.Flush(out[:0])
//
// Only OpenAI's members at the top level are known: "usage" and "model". Answers
// that are compressed, or neither JSON nor an event stream, pass unread. The
// package does no I/O.
package answer
