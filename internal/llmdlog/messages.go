package llmdlog

// message is a line that something is read of.
type message struct {
	level  int // the -v that it takes
	handle func(*Parser, *process, *entry)
}

// messages are all that is read; every other line is passed over unread. The two
// spellings of the end of a profile run are those of different versions.
var messages = map[string]message{
	"GIE build":                {0, (*Parser).started},
	"Flags processed":          {0, func(_ *Parser, proc *process, e *entry) { proc.setFlags(e.Flags) }},
	"Loaded raw configuration": {0, func(_ *Parser, proc *process, e *entry) { proc.rawConfig(text(e.Config)) }},
	"Instantiated all plugins and applied system defaults. Effective raw configuration": {
		0, func(_ *Parser, proc *process, e *entry) { proc.rawConfig(text(e.Config)) },
	},
	"parsed config": {0, func(_ *Parser, proc *process, e *entry) { proc.parsedConfig(e.Scheduler) }},

	"EPP received request":                       {2, (*Parser).received},
	"EPP sent request body response(s) to proxy": {2, onRequest((*request).passedOn)},
	"EPP sent response body back to proxy":       {2, (*Parser).ended},
	"HandleResponseBody is triggered":            {4, (*Parser).answered},
	"parsing response":                           {2, onRequest((*request).unreadable)},

	"LLM request assembled": {4, onRequest((*request).assembled)},
	"Request handled":       {3, onRequest((*request).handled)},
	"Flow control outcome":  {4, onRequest((*request).flowControl)},
	"Request dropped":       {2, (*Parser).dropped},

	"Error parsing request":     {2, onRequest((*request).failed)},
	"Error handling request":    {2, onRequest((*request).failed)},
	"Failed to process request": {2, (*Parser).refused},

	"Running scheduler profile":                         {3, (*Parser).profileBegins},
	"Before running filter plugins":                     {4, onRun((*run).allCandidates)},
	"Completed running filter plugin successfully":      {4, onRun((*run).filtered)},
	"Filter eliminated all endpoints":                   {3, onRun((*run).eliminated)},
	"Before running scorer plugins":                     {4, onRun((*run).scoringBegins)},
	"Running scorer plugin":                             {3, onRun((*run).scorerBegins)},
	"Calculated score":                                  {4, onRun((*run).calculated)},
	"Completed running scorer plugins successfully":     {3, onRun((*run).scoringEnds)},
	"Running picker plugin":                             {3, onRun((*run).pickerBegins)},
	"Candidate pods for picking":                        {4, onRun((*run).totals)},
	"Completed running picker plugin successfully":      {4, onRun((*run).picked)},
	"failed to run scheduler profile":                   {3, onRequest((*request).runEnds)},
	"Completed running scheduler profile successfully":  {3, onRequest((*request).runEnds)},
	"Completed running scheduler profile succuessfully": {3, onRequest((*request).runEnds)},
}

// onRequest handles a line that belongs to a request, which it may be the first of:
// then the log begins in its middle.
func onRequest(handle func(*request, *entry)) func(*Parser, *process, *entry) {
	return func(p *Parser, proc *process, e *entry) {
		r := p.find(proc, e.ID)
		if r == nil {
			if e.ID == "" {
				return
			}
			r = p.begin(proc, e, e.ID)
		}
		handle(r, e)
		p.bound(r)
	}
}

// onRun handles a line within a profile run.
func onRun(handle func(*run, *entry)) func(*Parser, *process, *entry) {
	return onRequest(func(r *request, e *entry) {
		if r.current == nil {
			r.runBegins(&entry{at: e.at})
		}
		handle(r.current, e)
	})
}
