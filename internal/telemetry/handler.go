package telemetry

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"
)

// handler writes the lines of [slog.JSONHandler], for the attributes that lines
// of requests consist of at a third of its cost: it spends most of its time on
// numbers with a fraction. What it does not know it leaves to that handler.
type handler struct {
	slog.Handler
	w io.Writer
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	b := append((*p)[:0], `{"time":"`...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"`...)
	b = append(b, levelText(r.Level)...)
	b = append(b, `","msg":`...)
	b = appendString(b, r.Message)
	known := !r.Time.IsZero()
	r.Attrs(func(a slog.Attr) bool {
		b = append(b, ',')
		b = appendString(b, a.Key)
		b = append(b, ':')
		b, known = appendValue(b, a.Value, known)
		return known
	})
	if !known {
		return h.Handler.Handle(ctx, r)
	}
	*p = append(b, '}', '\n')
	_, err := h.w.Write(*p)
	return err
}

// appendValue appends a value as JSON; known stays true when it can.
func appendValue(b []byte, v slog.Value, known bool) (out []byte, still bool) {
	switch v.Kind() {
	case slog.KindString:
		return appendString(b, v.String()), known
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10), known
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10), known
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool()), known
	case slog.KindFloat64:
		// As encoding/json writes numbers that are neither very small nor very large.
		if f := math.Abs(v.Float64()); f == 0 || f >= 1e-6 && f < 1e21 {
			return strconv.AppendFloat(b, v.Float64(), 'f', -1, 64), known
		}
	case slog.KindAny, slog.KindDuration, slog.KindTime, slog.KindGroup, slog.KindLogValuer:
	}
	return b, false
}

// appendString appends a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil { // strings always marshal
				return append(b, `""`...)
			}
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.Handler.WithAttrs(attrs) }

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler { return h.Handler.WithGroup(name) }

// levelText writes TRACE where slog would write DEBUG-4.
func levelText(level slog.Level) string {
	if level == LevelTrace {
		return "TRACE"
	}
	return level.String()
}
