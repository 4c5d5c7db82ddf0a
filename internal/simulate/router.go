package simulate

import (
	"time"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A router decides where requests go, and learns of pods only what it is told.
type router interface {
	// wants says how often it hears of pods, by alarm, 0 for never; for alarmEvents how
	// long an event takes to arrive.
	wants() [podAlarms]time.Duration
	// route gives the job a pod, or none.
	route(j *job)
	// reroute gives it another one, as the first could not be reached.
	reroute(j *job) bool
	answered(j *job)
	ended(j *job, how Ending)

	// hear tells of a pod what belongs to an alarm.
	hear(alarm int, p *pod)
	events(p *pod, b *vllm.Batch)
	// connected says that a pod's connections broke, or that it came back.
	connected(p *pod, up bool)
	close() error
}
