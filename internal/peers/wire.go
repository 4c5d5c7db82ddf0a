package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/eppctl/eppctl/internal/pool"
)

// The limits of a message, which a sender keeps and a receiver enforces.
const (
	maxLine     = 1 << 20 // bytes
	maxBookings = 2048    // in a message; the names of more might not fit
	maxName     = 253     // bytes of a pod's name or of an address: of a Kubernetes object
	maxOpen     = 1 << 30
	maxPicked   = 1 << 53 // JSON readers lose digits of more
)

type message struct {
	Bookings []booking `json:"bookings,omitempty"`
}

type booking struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	Picked   uint64 `json:"picked"`
	Open     int    `json:"open"`
}

// encode appends the bookings as messages, at least one.
func encode(dst []byte, bookings []pool.Booking) ([]byte, error) {
	for first := true; first || len(bookings) > 0; first = false {
		n := min(len(bookings), maxBookings)
		m := message{Bookings: make([]booking, n)}
		for i := range n {
			m.Bookings[i] = booking(bookings[i])
		}
		line, err := json.Marshal(m)
		if err != nil {
			return dst, fmt.Errorf("encode bookings: %w", err)
		}
		dst = append(append(dst, line...), '\n')
		bookings = bookings[n:]
	}
	return dst, nil
}

// decode reads a message, appended to dst. It takes nothing that a sender of this
// version does not write.
func decode(dst []pool.Booking, line []byte) ([]pool.Booking, error) {
	var m message
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return dst, fmt.Errorf("message: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return dst, errors.New("message: more than one JSON object on a line")
	}
	if len(m.Bookings) > maxBookings {
		return dst, fmt.Errorf("message: %d bookings, at most %d are taken", len(m.Bookings), maxBookings)
	}
	for i := range m.Bookings {
		b := &m.Bookings[i]
		switch {
		case b.Pod == "" || len(b.Pod) > maxName || b.Endpoint == "" || len(b.Endpoint) > maxName:
			return dst, fmt.Errorf("bookings[%d]: pod and endpoint must have 1 to %d bytes", i, maxName)
		case b.Picked > maxPicked || b.Open < 0 || b.Open > maxOpen || uint64(b.Open) > b.Picked:
			return dst, fmt.Errorf("bookings[%d]: %d open of %d picked", i, b.Open, b.Picked)
		}
		dst = append(dst, pool.Booking(*b))
	}
	return dst, nil
}
