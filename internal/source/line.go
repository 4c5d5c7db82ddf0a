package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eppctl/eppctl/internal/record"
)

// maxPrefix is how far into a line its JSON may begin: behind a timestamp, a pod's
// name and the like.
const maxPrefix = 512

// body is a line without what 'kubectl logs --prefix', '--timestamps' or a shipper
// of logs put before its JSON; nil when there is no JSON in it.
func body(line []byte) []byte {
	line = bytes.TrimSpace(line)
	at := bytes.IndexByte(line[:min(len(line), maxPrefix)], '{')
	if at < 0 || at > 0 && line[at-1] != ' ' && line[at-1] != '\t' {
		return nil
	}
	return line[at:]
}

// joiner puts together the parts in which a container runtime writes long lines to
// the node's files: "TIME stderr P …" up to "TIME stderr F …" in CRI's format, and
// {"log":"…"} in Docker's.
type joiner struct {
	parts map[string][]byte // by stream
	long  map[string]bool   // streams with a line that was too long and goes on
}

var errLong = fmt.Errorf("longer than %d MiB with the parts that a container runtime made of it", record.MaxLine>>20)

// join returns the line that is whole with this one; nil while parts of it are
// missing. A line that no runtime wrote is itself. One that is too long is an error
// once, and all of its parts are left out.
func (j *joiner) join(line []byte) ([]byte, error) {
	stream, text, last, ok := cutCRI(line)
	if !ok {
		stream, text, last, ok = cutDocker(line)
	}
	switch waiting := j.parts[stream]; {
	case !ok:
		return line, nil
	case j.long[stream]:
		j.long[stream] = !last
		return nil, nil
	case last && len(waiting) == 0:
		return text, nil
	case len(waiting)+len(text) > record.MaxLine:
		delete(j.parts, stream)
		j.skip(stream, !last)
		return nil, errLong
	}
	j.keep(stream, text)
	if !last {
		return nil, nil
	}
	whole := j.parts[stream]
	delete(j.parts, stream)
	return whole, nil
}

func (j *joiner) skip(stream string, on bool) {
	if j.long == nil {
		j.long = map[string]bool{}
	}
	j.long[stream] = on
}

func (j *joiner) keep(stream string, text []byte) {
	if j.parts == nil {
		j.parts = map[string][]byte{}
	}
	j.parts[stream] = append(j.parts[stream], text...)
}

func cutCRI(line []byte) (stream string, text []byte, last, ok bool) {
	head, rest, _ := bytes.Cut(line, []byte(" "))
	name, rest, _ := bytes.Cut(rest, []byte(" "))
	tag, text, found := bytes.Cut(rest, []byte(" "))
	if !found || len(tag) != 1 || tag[0] != 'F' && tag[0] != 'P' {
		return "", nil, false, false
	}
	if _, err := time.Parse(time.RFC3339Nano, string(head)); err != nil {
		return "", nil, false, false
	}
	switch string(name) {
	case "stdout":
		stream = "stdout"
	case "stderr":
		stream = "stderr"
	default:
		return "", nil, false, false
	}
	return stream, bytes.TrimSuffix(text, []byte("\n")), tag[0] == 'F', true
}

func cutDocker(line []byte) (stream string, text []byte, last, ok bool) {
	if !bytes.HasPrefix(line, []byte(`{"log":"`)) {
		return "", nil, false, false
	}
	var entry struct{ Log, Stream string }
	if json.Unmarshal(line, &entry) != nil || entry.Stream != "stdout" && entry.Stream != "stderr" {
		return "", nil, false, false
	}
	text, last = bytes.CutSuffix([]byte(entry.Log), []byte("\n"))
	return entry.Stream, text, last, true
}
