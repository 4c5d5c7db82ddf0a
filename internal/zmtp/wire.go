package zmtp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Why a connection was ended from this side; the errors that are told wrap them.
var (
	// ErrProtocol is for bytes that are no ZMTP, or not as it is spoken here.
	ErrProtocol = errors.New("protocol error")
	// ErrLimit is for what is valid and too much.
	ErrLimit = errors.New("over the limit")
)

// The bits of a frame's first byte. The others must be zero.
const (
	flagMore    = 1 << iota // another frame of the same message follows
	flagLong                // the size has 8 bytes, not 1
	flagCommand             // a command, not a part of a message
	flagsKnown  = flagMore | flagLong | flagCommand
)

// greeting is what either side sends first: signature, version 3.1, mechanism
// NULL, and zeros to fill it up.
const greeting = "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f" + "\x03\x01" +
	mechanismNull + "\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

const mechanismNull = "NULL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// Where the fields of a greeting end.
const (
	signatureEnd = 10
	majorEnd     = 11
	minorEnd     = 12
	mechanismEnd = 32
)

// A socket is the type of one end of a connection, by the name that the handshake
// gives it.
type socket string

const (
	sub    socket = "SUB"
	pub    socket = "PUB"
	dealer socket = "DEALER"
	router socket = "ROUTER"
)

// partners are the types that a socket speaks to.
func (s socket) partners() []string {
	switch s {
	case sub:
		return []string{"PUB", "XPUB"}
	case pub:
		return []string{"SUB", "XSUB"}
	case dealer:
		return []string{"ROUTER", "DEALER", "REP"}
	default:
		return []string{"DEALER", "REQ", "ROUTER"}
	}
}

// appendFrame appends one frame with its header.
func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = append(b, flags|flagLong)
		b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

// appendMessage appends the frames of a message.
func appendMessage(b []byte, parts [][]byte) []byte {
	for i, part := range parts {
		var flags byte
		if i < len(parts)-1 {
			flags = flagMore
		}
		b = appendFrame(b, flags, part)
	}
	return b
}

// appendCommand appends a command of a name and what follows it.
func appendCommand(b []byte, name string, data []byte) []byte {
	body := make([]byte, 0, 1+len(name)+len(data))
	body = append(body, byte(len(name)))
	body = append(body, name...)
	return appendFrame(b, flagCommand, append(body, data...))
}

// splitCommand is a command's name and what follows it.
func splitCommand(body []byte) (name string, data []byte, err error) {
	field, data, ok := cutField(body, 1)
	if !ok || len(field) == 0 {
		return "", nil, fmt.Errorf("%w: a command without a name", ErrProtocol)
	}
	return string(field), data, nil
}

// cutField splits off a field that its length precedes, in a number of width
// bytes, 1 or 4.
func cutField(b []byte, width int) (field, rest []byte, ok bool) {
	if len(b) < width {
		return nil, nil, false
	}
	size := uint64(b[0])
	if width == 4 {
		size = uint64(binary.BigEndian.Uint32(b))
	}
	b = b[width:]
	if uint64(len(b)) < size {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}

// readyData is what a READY says of a socket.
func readyData(s socket) []byte {
	b := appendProperty(nil, "Socket-Type", string(s))
	if s == dealer || s == router {
		b = appendProperty(b, "Identity", "")
	}
	return b
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// checkReady looks whether the first command of a peer lets a socket speak to it.
func checkReady(body []byte, own socket) error {
	name, data, err := splitCommand(body)
	switch {
	case err != nil:
		return err
	case name == "ERROR":
		return refusal(data)
	case name != "READY":
		return fmt.Errorf("%w: the first command is %.20q, not READY", ErrProtocol, name)
	}
	var theirs string
	for len(data) > 0 {
		name, rest, ok := cutField(data, 1)
		value, rest, ok2 := cutField(rest, 4)
		if !ok || !ok2 || len(name) == 0 {
			return fmt.Errorf("%w: malformed properties in READY", ErrProtocol)
		}
		if strings.EqualFold(string(name), "Socket-Type") {
			theirs = string(value)
		}
		data = rest
	}
	if partners := own.partners(); !slices.Contains(partners, theirs) {
		return fmt.Errorf("%w: the peer is a socket of type %.20q; a %s speaks to %s",
			ErrProtocol, theirs, own, strings.Join(partners, ", "))
	}
	return nil
}

// refusal is what a peer says in an ERROR.
func refusal(data []byte) error {
	reason, _, ok := cutField(data, 1)
	if !ok {
		return fmt.Errorf("%w: malformed ERROR", ErrProtocol)
	}
	return fmt.Errorf("%w: the peer refuses the connection: %q", ErrProtocol, reason)
}
