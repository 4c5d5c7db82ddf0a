package record

// Sink lets tests stand in for files.
type Sink = sink

// WithSinks makes cfg create files by the function.
func WithSinks(cfg FilesConfig, create func(name string) (Sink, error)) FilesConfig {
	cfg.create = create
	return cfg
}

// Backward reads lines from the end, as look-ups in files do.
var Backward = newBackward

// Next is the line before.
func (b *backward) Next() (line []byte, whole bool, err error) { return b.next() }
