package config

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// origin remembers where settings stand in the file, so that an error which only
// shows later, when flags were laid over it and custom scorers are known, can still
// name the line.
type origin struct {
	file  string         // "" when it was not read from a file
	lines map[string]int // by path, as "weights.cache" or "models[0].name"
}

func (o origin) has(path string) bool { return o.lines[path] > 0 }

// forget drops what was laid over: an error there is none of the file.
func (o origin) forget(paths ...string) {
	for _, path := range paths {
		maps.DeleteFunc(o.lines, func(p string, _ int) bool { return p == path || strings.HasPrefix(p, path+".") })
	}
}

// at is the beginning of an error about a setting.
func (o origin) at(path string) string {
	if !o.has(path) {
		return ""
	}
	return o.line(o.lines[path])
}

func (o origin) line(n int) string {
	if o.file == "" {
		return fmt.Sprintf("line %d: ", n)
	}
	return fmt.Sprintf("%s: line %d: ", o.file, n)
}

// wrap names the file of an error that has its line already, or none.
func (o origin) wrap(err error) error {
	if o.file == "" {
		return err
	}
	return fmt.Errorf("%s: %w", o.file, err)
}

// place puts file and line before each of the joined errors that begins with the
// path of a setting in the file.
func (o origin) place(err error) error {
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, o.place(e))
		}
		return few(out)
	}
	if err == nil {
		return nil
	}
	path, _, _ := strings.Cut(err.Error(), ":")
	if at := o.at(path); at != "" {
		return fmt.Errorf("%s%w", at, err)
	}
	return err
}
