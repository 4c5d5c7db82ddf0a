package metricview

import (
	"bytes"
	"errors"
)

// endOfPage is the last line of an OpenMetrics page.
const endOfPage = "# EOF"

// classicText writes an OpenMetrics page in the classic text format. The decoder of
// prometheus/common takes milliseconds for each line of OpenMetrics, and refuses
// pages with two families of one name, which client libraries write: the gauge
// go_memstats_alloc_bytes and the counter go_memstats_alloc_bytes_total.
//
// What the classic format has not is left out: units, exemplars, timestamps and the
// times at which series were created.
func classicText(body []byte) ([]byte, error) {
	if !bytes.HasSuffix(bytes.TrimSpace(body), []byte(endOfPage)) {
		return nil, malformed(errors.New("it is cut: its last line is not " + endOfPage))
	}
	c := classic{out: make([]byte, 0, len(body)+len(body)/8)}
	for line := range bytes.Lines(body) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if bytes.HasPrefix(line, []byte("#")) {
			c.metadata(line)
		} else {
			c.sample(line)
		}
	}
	return c.out, nil
}

// classic is a page that is being written, and the family that it is at.
type classic struct {
	out    []byte
	family string
	suffix string // of the family's name in the classic format
	help   []byte // that waits for the type
	dated  bool   // the family may have _created series
	begun  bool   // it has samples, so that metadata are of another one
}

// classicTypes are the types of OpenMetrics that the classic format has, too; the
// others are untyped there.
var classicTypes = map[string]string{
	"counter": "counter", "gauge": "gauge", "histogram": "histogram", "summary": "summary", "info": "gauge", "stateset": "gauge",
}

// metadata takes a line as # TYPE name type.
func (c *classic) metadata(line []byte) {
	fields := bytes.SplitN(line, []byte(" "), 4)
	if len(fields) < 4 {
		return
	}
	name := string(fields[2])
	switch string(fields[1]) {
	case "HELP":
		if name == c.family && !c.begun {
			c.line("# HELP "+name+c.suffix+" ", fields[3])
			return
		}
		c.help = fields[3]
	case "TYPE":
		kind := string(fields[3])
		c.begun = false
		c.family, c.suffix = name, map[string]string{"counter": "_total", "info": "_info"}[kind]
		c.dated = kind == "counter" || kind == "histogram" || kind == "summary"
		if c.help != nil {
			c.line("# HELP "+name+c.suffix+" ", c.help)
			c.help = nil
		}
		if as := classicTypes[kind]; as != "" {
			c.line("# TYPE "+name+c.suffix+" ", []byte(as))
		}
	}
}

// sample takes a line as name{labels} value timestamp # exemplar.
func (c *classic) sample(line []byte) {
	c.begun = true
	end := seriesEnd(line)
	name, _, _ := bytes.Cut(line[:end], []byte("{"))
	if c.dated && string(name) == c.family+"_created" {
		return
	}
	value := bytes.TrimLeft(line[end:], " ")
	value, _, _ = bytes.Cut(value, []byte(" "))
	c.line(string(line[:end])+" ", value)
}

// seriesEnd is where the name and the labels of a sample end.
func seriesEnd(line []byte) int {
	braces, quotes := false, false
	for i := 0; i < len(line); i++ {
		switch b := line[i]; {
		case quotes && b == '\\':
			i++
		case b == '"':
			quotes = !quotes
		case quotes:
		case b == '{':
			braces = true
		case b == '}':
			return i + 1
		case b == ' ' && !braces:
			return i
		}
	}
	return len(line)
}

func (c *classic) line(start string, rest []byte) {
	c.out = append(append(append(c.out, start...), rest...), '\n')
}
