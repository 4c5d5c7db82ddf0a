package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/deploy"
)

// checkDir refuses a directory with files, which might be somebody's work, unless they
// may be replaced. One that is not there is made later.
func checkDir(dir string, overwrite bool) error {
	entries, err := os.ReadDir(dir)
	if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
		return fmt.Errorf("--dir: %s is no directory", dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--dir: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	if len(entries) == 0 || overwrite {
		return nil
	}
	what := entries[0].Name()
	if more := len(entries) - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("--dir: %s is not empty, it has %s: give another one, or --overwrite to replace its files", dir, what)
}

// writeFiles writes all files, or none: they come to their places when all of them are
// on disk. What it made is taken away again when that fails.
func writeFiles(dir string, files []deploy.File) (err error) {
	made := missing(dir)
	defer func() {
		if err != nil && made != "" {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	aside, err := os.MkdirTemp(dir, ".eppctl-*")
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	defer os.RemoveAll(aside)
	for _, file := range files {
		if err := writeFile(aside, file); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
		if info, err := os.Stat(place(dir, file)); err == nil && info.IsDir() {
			return fmt.Errorf("--dir: %s is a directory", place(dir, file))
		}
		if err := os.MkdirAll(filepath.Dir(place(dir, file)), 0o755); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	for _, file := range files {
		if err := os.Rename(place(aside, file), place(dir, file)); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	return nil
}

func place(dir string, file deploy.File) string {
	return filepath.Join(dir, filepath.FromSlash(file.Name))
}

func writeFile(dir string, file deploy.File) error {
	path := place(dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(file.Text), 0o644)
}

// missing is the first directory on the way to dir that is not there; "" if all are.
func missing(dir string) string {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if above := filepath.Dir(dir); above != dir {
		if m := missing(above); m != "" {
			return m
		}
	}
	return dir
}

// strangers are YAML files where files were written that are none of them: of a run
// with other options they would be installed too.
func strangers(dir string, files []deploy.File) []string {
	var found []string
	for _, below := range []string{".", "templates"} {
		paths, _ := filepath.Glob(filepath.Join(dir, below, "*.yaml")) // fails only for a bad pattern
		for _, path := range paths {
			name, err := filepath.Rel(dir, path)
			isName := func(f deploy.File) bool { return f.Name == filepath.ToSlash(name) }
			if err == nil && !slices.ContainsFunc(files, isName) {
				found = append(found, path)
			}
		}
	}
	return found
}
