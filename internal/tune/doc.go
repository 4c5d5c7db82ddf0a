// Package tune gives advice on weights: what is wrong by the fleet's own records,
// which weight would be the lever, what moving it would have done, and how sure that
// is.
//
// The one idea: advice has to prove itself three times before it is given. Recorded
// decisions are taken again and must come out the same, else nothing that is computed
// from them is about this picker. A weight is only thought of when there is a symptom
// that it is the lever for. And what is suggested must have done better on arrivals
// that it was not chosen on:
//
//	records ─▶ Traffic ─▶ findings ─▶ moves ─▶ counterfactual (each pick alone, exact)
//	              └─▶ recorded arrivals ───────▶ closed loop (simulated, on time folds)
//	                                                └─▶ a suggestion, or "keep"
//
// To keep the weights is a result like any other, and the usual one.
//
// It promises no latency: the simulated fleet is like the real one and not the same.
// It does not look at single requests (package explain does), read files or ask
// pickers, or change anything.
package tune
