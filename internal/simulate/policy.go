package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/nearest"
)

// A Policy says how requests are routed, as it was spelled: a kind and its options,
// as "eppctl:preset=rag:queue=.2" or "consistent-hash:bytes=1024".
type Policy struct {
	Name    string
	kind    string
	weights score.Weights // of the kinds that score
	by      string        // what consistent-hash goes by
	bytes   int           // of the prompt
}

// The kinds of policies. The first four are eppctl's picker; the others are what
// proxies do.
const (
	kindEppctl   = "eppctl"
	kindPrefix   = "prefix-only"
	kindQueue    = "queue-only"
	kindOracle   = "oracle"
	kindTurns    = "round-robin"
	kindWeighted = "weighted-round-robin"
	kindLeast    = "least-connections"
	kindRandom   = "random"
	kindTwo      = "p2c"
	kindSticky   = "sticky"
	kindIP       = "ip-hash"
	kindHash     = "consistent-hash"
	kindURI      = "uri-hash"
)

// Kinds are the names of the policies.
func Kinds() []string {
	return []string{
		kindEppctl, kindPrefix, kindQueue, kindOracle, kindTurns, kindWeighted, kindLeast, kindRandom, kindTwo,
		kindSticky, kindIP, kindHash, kindURI,
	}
}

// ParsePolicy reads a policy. base are the weights that eppctl begins with.
func ParsePolicy(text string, base score.Weights) (*Policy, error) {
	kind, options, _ := strings.Cut(text, ":")
	if !slices.Contains(Kinds(), kind) {
		return nil, fmt.Errorf("policy %q: did you mean %s? There are %s", kind, nearest.Name(kind, Kinds()), strings.Join(Kinds(), ", "))
	}
	p := &Policy{Name: text, kind: kind, weights: *base.Clone(), by: "header"}
	switch kind {
	case kindPrefix:
		p.only(&p.weights.Cache)
	case kindQueue:
		p.only(&p.weights.Queue)
	}
	for option := range strings.SplitSeq(options, ":") {
		if options == "" {
			break
		}
		key, value, ok := strings.Cut(option, "=")
		if err := p.set(key, value, ok); err != nil {
			return nil, fmt.Errorf("policy %q: %w", text, err)
		}
	}
	if p.Picks() {
		if err := p.weights.Validate(); err != nil {
			return nil, fmt.Errorf("policy %q: %w", text, err)
		}
	}
	return p, nil
}

// Picks reports whether the policy is the picker's, and not a proxy's.
func (p *Policy) Picks() bool {
	return slices.Contains([]string{kindEppctl, kindPrefix, kindQueue, kindOracle}, p.kind)
}

// only gives one factor all the weight.
func (p *Policy) only(factor *float64) {
	w := &p.weights
	w.Cache, w.Load, w.Queue, w.Health, w.Adapter = 0, 0, 0, 0, 0
	*factor = 1
}

// set sets an option.
func (p *Policy) set(key, value string, given bool) error {
	switch {
	case p.kind == kindHash && key == "header" && !given:
		return nil
	case p.kind == kindHash && key == "bytes":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("bytes: want a number above 0, got %q", value)
		}
		p.by, p.bytes = "bytes", n
		return nil
	case p.kind == kindHash:
		return fmt.Errorf("no option %q; there are header and bytes=N", key)
	case p.kind != kindEppctl && p.kind != kindOracle:
		return errors.New("takes no options")
	case key == "preset":
		return p.preset(value)
	case key == "saturation":
		s, err := score.ParseSaturation(value)
		p.weights.Saturation = s
		return err
	}
	return p.number(key, value)
}

func (p *Policy) preset(name string) (err error) {
	p.weights, err = score.Preset(name)
	return err
}

// number sets one weight or limit.
func (p *Policy) number(key, value string) error {
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%s: want a number, got %q", key, value)
	case key == "maxUtilization":
		p.weights.MaxUtilization = v
	case key != "maxQueue":
		return p.weights.Set(key, v)
	case v != math.Trunc(v) || v < 1 || v > math.MaxInt32:
		return fmt.Errorf("maxQueue: want a whole number above 0, got %q", value)
	default:
		p.weights.MaxQueue = int(v)
	}
	return nil
}

// router makes the policy's router for a run.
func (p *Policy) router(r *run) (router, error) {
	if p.Picks() {
		return newPicking(r, p.weights, p.kind == kindOracle)
	}
	return newBalancer(r, p), nil
}
