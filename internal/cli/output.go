package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Unknown stands for a value that is not known, wherever a number or a name
// would stand. It is never a zero.
const Unknown = "–"

// Format is the value of -o.
type Format string

// The output formats. A command offers some of them.
const (
	FormatText  Format = "text"  // prose and tables for a person
	FormatTable Format = "table" // one row an item
	FormatWide  Format = "wide"  // the same with more columns
	FormatJSON  Format = "json"  // one indented document
	FormatYAML  Format = "yaml"  // the same document as YAML
	FormatJSONL Format = "jsonl" // one compact JSON document a line
	FormatName  Format = "name"  // one identifier a line, for xargs
	FormatHTML  Format = "html"  // one page that loads nothing
	FormatMD    Format = "md"    // Markdown
)

// ParseFormat reads the value of -o for a command that offers the formats in
// valid; the first of them is the default for "".
func ParseFormat(text string, valid ...Format) (Format, error) {
	if text == "" && len(valid) > 0 {
		return valid[0], nil
	}
	if slices.Contains(valid, Format(text)) {
		return Format(text), nil
	}
	names := make([]string, len(valid))
	for i, format := range valid {
		names[i] = string(format)
	}
	list := strings.Join(names, ", ")
	hint := "use -o with one of these"
	if i := slices.Index(names, strings.ToLower(text)); i >= 0 {
		hint = fmt.Sprintf("did you mean '-o %s'?", names[i])
	}
	return "", WithHint(fmt.Errorf("unknown output format %q for -o (valid: %s)", text, list), ExitUsage, hint)
}

// Printer writes the data of one command in the format that was asked for.
type Printer struct {
	Streams   *Streams
	Format    Format
	NoHeaders bool // --no-headers: tables without their first line
}

// Document writes v as one JSON or YAML document, for those two formats. The
// same struct with its JSON tags makes both.
func (p Printer) Document(v any) error {
	if p.Format == FormatYAML {
		return WriteYAML(p.Streams.Out, v)
	}
	return WriteJSON(p.Streams.Out, v)
}

// Line writes v as one line of JSON Lines.
func (p Printer) Line(v any) error { return WriteJSONLine(p.Streams.Out, v) }

// Name writes one identifier on a line of its own.
func (p Printer) Name(name string) error {
	_, err := io.WriteString(p.Streams.Out, Sanitize(name)+"\n")
	return err
}

// WriteJSON writes v as an indented JSON document with a newline at its end.
// Characters that could act on a terminal are written as \u escapes, so what is
// read back is what was written. NaN and infinities are errors.
func WriteJSON(w io.Writer, v any) error {
	return writeJSON(w, v, "  ")
}

// WriteJSONLine is WriteJSON on a single line.
func WriteJSONLine(w io.Writer, v any) error {
	return writeJSON(w, v, "")
}

// WriteYAML writes v as a YAML document, by way of its JSON: the same names,
// sorted. Strings are sanitized line by line, so where JSON keeps a character
// that could act on a terminal, YAML has what [Sanitize] makes of it: YAML has
// no form for such a string that all of its readers agree on.
func WriteYAML(w io.Writer, v any) error {
	document, err := encodeJSON(v, "")
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber() // 1.0 and 64-bit integers stay what they are
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return fmt.Errorf("encode YAML: %w", err)
	}
	if document, err = encodeJSON(sanitizeTree(tree), ""); err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(document)
	if err != nil {
		return fmt.Errorf("encode YAML: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// sanitizeTree sanitizes every string and key of a decoded JSON document.
func sanitizeTree(node any) any {
	switch node := node.(type) {
	case string:
		return sanitizeLines(node, "\n")
	case []any:
		for i := range node {
			node[i] = sanitizeTree(node[i])
		}
		return node
	case map[string]any:
		safe := make(map[string]any, len(node))
		for key, value := range node {
			safe[Sanitize(key)] = sanitizeTree(value)
		}
		return safe
	default:
		return node
	}
}

func writeJSON(w io.Writer, v any, indent string) error {
	document, err := encodeJSON(v, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(escapeUnsafe(document))
	return err
}

func encodeJSON(v any, indent string) ([]byte, error) {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return document.Bytes(), nil
}

// escapeUnsafe replaces what encoding/json leaves as it is and a terminal may
// obey: DEL, C1 controls, bidi and other format characters. Outside of strings
// a JSON document has none of them.
func escapeUnsafe(document []byte) []byte {
	var safe []byte // nil until the first replacement
	done := 0
	for i := 0; i < len(document); {
		if c := document[i]; c < utf8.RuneSelf && c != 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(document[i:])
		if !safeRune(r) {
			safe = appendEscape(append(safe, document[done:i]...), r)
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return document
	}
	return append(safe, document[done:]...)
}

func appendEscape(b []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return appendUnit(appendUnit(b, high), low)
	}
	return appendUnit(b, r)
}

// appendUnit appends one UTF-16 unit as \uXXXX.
func appendUnit(b []byte, unit rune) []byte {
	digits := strconv.FormatUint(uint64(unit), 16)
	b = append(b, `\u`...)
	b = append(b, "0000"[len(digits):]...)
	return append(b, digits...)
}
