// Package metricview answers the questions of a person on call from the /metrics
// pages of pickers and engines, without a Prometheus server.
//
// The one idea: a page is a set of families, and everything else is arithmetic on
// them. Two pages of one replica make rates, pages of several replicas are added
// up bucket by bucket, quantiles are PromQL's own (histogram_quantile), and a
// table of names says which family answers which question on which picker's page.
//
//	page, err := metricview.Parse(body, contentType)
//	doc, err := metricview.Look(metricview.Observation{Replicas: []metricview.Replica{{After: page}}, Now: now}, nil)
//
// Missing is never zero: what a page does not tell is null, and stands in the list
// of what is missing together with the likely reason.
//
// It does not fetch pages (internal/scrape does), keeps no history beyond two
// pages of each replica, and evaluates no query language.
package metricview
