package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/eppctl/eppctl/score/nearest"
)

// The columns of a CSV trace. The first three are needed.
var csvColumns = []string{"time", "input", "output", "group", "shared", "session", "client", "uri", "adapter"}

const csvNeeded = 3

// readCSV reads lines of time, input and output, with names in the first line.
// Requests of a group share the first tokens of their prompts: shared of them, or
// without that column as many as the shorter one has.
func readCSV(r io.Reader, c *collector) error {
	bounded := &allowance{r: r, left: maxLine}
	in := csv.NewReader(bounded)
	in.ReuseRecord, in.TrimLeadingSpace, in.Comment = true, true, '#'
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil // no request in it
	}
	if err != nil {
		return err
	}
	columns, err := csvHeader(header)
	if err != nil {
		return err
	}
	for n := uint64(1); ; n++ {
		bounded.left = maxLine
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := in.FieldPos(0)
		row := csvRow{columns: columns, fields: fields}
		q := row.request(n)
		if row.err != nil {
			return fmt.Errorf("line %d: %w", line, row.err)
		}
		if err := c.add(q); err != nil {
			return err
		}
	}
}

// allowance reads so many bytes: a record, which may go on over lines, is held in memory.
type allowance struct {
	r    io.Reader
	left int
}

// Read implements [io.Reader].
func (a *allowance) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, fmt.Errorf("a record is longer than %d bytes", maxLine)
	}
	n, err := a.r.Read(p[:min(len(p), a.left)])
	a.left -= n
	return n, err
}

// csvHeader finds the columns.
func csvHeader(header []string) (map[string]int, error) {
	at := map[string]int{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(csvColumns, name) {
			return nil, fmt.Errorf("line 1: neither JSON nor a column that is known: %q; did you mean %s? There are %s",
				name, nearest.Name(name, csvColumns), strings.Join(csvColumns, ", "))
		}
		if _, ok := at[name]; ok {
			return nil, fmt.Errorf("line 1: column %s stands there twice", name)
		}
		at[name] = i
	}
	for _, name := range csvColumns[:csvNeeded] {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("line 1: no column %s; needed are %s", name, strings.Join(csvColumns[:csvNeeded], ", "))
		}
	}
	return at, nil
}

// csvRow reads fields; the first error stays.
type csvRow struct {
	columns map[string]int
	fields  []string
	err     error
}

// text is a field, "" when there is none.
func (r *csvRow) text(column string) string {
	if i, ok := r.columns[column]; ok {
		return strings.TrimSpace(r.fields[i])
	}
	return ""
}

func (r *csvRow) fail(column, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s, got %q", column, want, r.text(column))
	}
}

// tokens is a number of tokens, or otherwise for an empty field.
func (r *csvRow) tokens(column string, least, otherwise int) int {
	if r.text(column) == "" && otherwise >= least {
		return otherwise
	}
	n, err := strconv.Atoi(r.text(column))
	if err != nil || n < least || n > maxTokens {
		r.fail(column, fmt.Sprintf("must be tokens from %d to %d", least, maxTokens))
	}
	return n
}

// seconds is a time: seconds as a number, or a duration.
func (r *csvRow) seconds(column string) time.Duration {
	text := r.text(column)
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= math.MaxInt32) {
		r.fail(column, "must be seconds from the start")
	}
	return time.Duration(v * float64(time.Second))
}

// id is a number for a text; another one for none.
func (r *csvRow) id(column string, otherwise uint64) uint64 {
	if text := r.text(column); text != "" {
		return xxhash.Sum64String(text)
	}
	return otherwise
}

// request is the row; n is its number.
func (r *csvRow) request(n uint64) Request {
	q := Request{At: r.seconds("time"), Output: r.tokens("output", 1, 0), Adapter: r.text("adapter")}
	input := r.tokens("input", 1, 0)
	own := hashOf(n)
	if group := r.text("group"); group != "" {
		shared := min(input, r.tokens("shared", 0, input))
		if shared > 0 {
			q.Prompt = then(q.Prompt, xxhash.Sum64String(group), shared)
		}
		input -= shared
	}
	if input > 0 {
		q.Prompt = then(q.Prompt, own, input)
	}
	q.Session = r.id("session", r.id("group", own))
	q.Client = r.id("client", q.Session)
	q.URI = r.id("uri", 0)
	return q
}
