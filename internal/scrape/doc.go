// Package scrape reads /metrics pages over HTTP, and files of such pages.
//
// The one idea: a page that can't be read is explained. Every error is an [*Error]
// that says what kind of failure it is, and what to do about it in words for a
// person: a picker that is not there, a page behind a token, a dashboard in place
// of metrics.
//
// Several replicas are read at once, and twice when rates are wanted. What the
// pages say is internal/metricview's; nothing is kept between calls.
package scrape
