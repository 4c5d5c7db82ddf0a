// Package naming turns the model names that clients use into the names under which
// engines serve: for one name a model or an adapter, or several between which
// requests are split.
//
// The one idea: rules are laid out once into a [Table], with every precedence
// settled and every rule that lost told as a [Conflict]; naming a request is then a
// look-up and a hash of its ID, so that all replicas give the same answer.
//
// # Precedence
//
// A rule for the very name goes before one for all names. Among these a rule of an
// InferenceModelRewrite goes before one of the older InferenceModel, then the oldest
// resource goes first (by its creation, then by its name), then the first of its
// rules. Rules of different pools do not compete while their targets are the same:
// the name is then served by all of these pools.
//
// # What this package does not do
//
// It does not know which models there are, nor follow chains: a target is the
// engines' name, even when there is a rule for it.
package naming
