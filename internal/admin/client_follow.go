package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// patience is how long nothing may come beyond a stream's interval.
const patience = 10 * time.Second

// maxLine bounds a line of a stream: a snapshot of 2,048 pods has a tenth of it.
const maxLine = 32 << 20

var (
	errSilent = errors.New("nothing comes any more")
	errMute   = errors.New("it takes calls and does not answer")
)

// Snapshot tells the picker's fleet as it is now.
func (c *Client) Snapshot(ctx context.Context) (*explain.Snapshot, error) {
	doc := new(explain.Snapshot)
	if err := c.get(ctx, "/v1/snapshot", nil, doc); err != nil {
		return nil, err
	}
	if err := c.known(doc); err != nil {
		return nil, err
	}
	doc.Router.Server = c.Server()
	return doc, nil
}

// known refuses a document that is no snapshot.
func (c *Client) known(s *explain.Snapshot) error {
	if s.Kind != explain.KindSnapshot || s.APIVersion != explain.APIVersion {
		return c.garbled(fmt.Errorf("it answers with a %.40q of %.40q, and no snapshot", s.Kind, s.APIVersion))
	}
	return nil
}

// Stream follows the picker's fleet: visit gets each line as it comes, with a
// snapshot at once and then at each interval, until ctx ends, visit fails, or the
// picker goes. It never returns nil: the error is ctx's cause, that of visit, or as of
// all calls; an [*UnreachableError] too when the picker ends the stream or falls
// silent. The line is the visitor's.
func (c *Client) Stream(ctx context.Context, interval time.Duration, visit func(*StreamLine) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer silence.Stop()
	resp, err := c.do(ctx, call{
		method: http.MethodGet, path: "/v1/stream", query: url.Values{"interval": {interval.String()}}, accept: "application/jsonl",
	})
	if errors.Is(err, errSilent) {
		return c.unreachable(errMute)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	silence.Reset(interval + patience)
	for lines := bufio.NewReaderSize(resp.Body, 64<<10); ; {
		text, err := readLine(lines)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errSilent) {
				return cause
			}
			return c.broken(ctx, err)
		}
		silence.Reset(interval + patience)
		line := new(StreamLine)
		if err := json.Unmarshal(text, line); err != nil {
			return c.broken(ctx, fmt.Errorf("a line can't be read: %w", err))
		}
		if line.Snapshot != nil {
			if err := c.known(line.Snapshot); err != nil {
				return err
			}
			line.Snapshot.Router.Server = c.Server()
		}
		if err := visit(line); err != nil {
			return err
		}
		if line.End != nil {
			return c.garbled(errors.New(explain.Sanitize(line.End.Reason)))
		}
	}
}

// broken says why a stream ended.
func (c *Client) broken(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		err = errSilent
	case errors.Is(err, io.EOF):
		err = errors.New("the stream has ended")
	default:
		err = fmt.Errorf("the stream broke off: %w", plain(err))
	}
	return c.garbled(err)
}

// readLine reads a line of at most maxLine bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var long bytes.Buffer
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case err == nil && long.Len() == 0:
			return part, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case long.Len()+len(part) > maxLine:
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		long.Write(part)
		if err == nil {
			return long.Bytes(), nil
		}
	}
}
