package envoyconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// ErrNoEnvoy is what an error of [Check] matches when there is no such program.
var ErrNoEnvoy = errors.New("no such program")

// checkTimeout bounds a check, which takes Envoy a tenth of a second.
const checkTimeout = 30 * time.Second

// maxVerdict bounds what is repeated of Envoy's output, in bytes.
const maxVerdict = 4 << 10

// Check asks an envoy program, by path or by name, whether it would start with a
// configuration. The error of one that it refuses holds Envoy's reason.
func Check(ctx context.Context, envoy string, config []byte) error {
	program, err := exec.LookPath(envoy)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoEnvoy, err)
	}
	dir, err := os.MkdirTemp("", "eppctl-envoy-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "envoy.json") // Envoy goes by the extension
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("no verdict within %v", checkTimeout))
	defer cancel()
	var output bytes.Buffer
	c := exec.CommandContext(ctx, program, "--mode", "validate", "-c", path, "--log-level", "critical", "--log-format", "%v")
	c.Stdout, c.Stderr = &output, &output
	c.WaitDelay = time.Second
	err = c.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", program, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s refuses the configuration: %w\n%s", program, err, verdict(output.String(), path))
	}
	return nil
}

// verdict leaves of Envoy's output what a person needs.
func verdict(output, path string) string {
	output = strings.ReplaceAll(output, path, "envoy.json")
	output = regexp.MustCompile(`(?m)^error initializing configuration 'envoy.json': `).ReplaceAllString(output, "")
	output = strings.TrimSpace(output)
	if len(output) > maxVerdict {
		output = output[:maxVerdict] + " …"
	}
	return output
}
