package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/eppctl/eppctl/internal/golden"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"eppctl": main,
		"ask":    func() { exitOn(ask(os.Args[1:])) },
		"status": func() { exitOn(status(os.Args[1], os.Args[2:])) },
	})
}

func TestScripts(t *testing.T) {
	decisions, err := filepath.Abs("testdata/decisions/fleet.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := filepath.Abs("testdata/traces/mooncake-2000.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Abs("internal/llmdlog/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       golden.Update(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("FLEET", decisions)
			env.Setenv("LLMD", logs)
			env.Setenv("TRACE", trace)
			for _, listener := range []string{"GATEWAY", "EXTPROC", "HEALTH", "METRICS", "ADMIN", "REPORT"} {
				env.Setenv("EPPCTL_"+listener+"_ADDR", "127.0.0.1:0") // wherever there is room
			}
			env.Setenv("TERM", "xterm-256color")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // with -race, a second for each command else
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": ready,
			"field": field,
			"count": count,
		},
	})
}

// patience bounds every wait; a machine that is busy may need most of it.
const patience = time.Minute

// ready waits for the file of --addr-file and sets GATEWAY, EXTPROC, HEALTH,
// METRICS, ADMIN and REPORT from it.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready FILE")
	}
	var b []byte
	for end := time.Now().Add(patience); ; {
		var err error
		if b, err = os.ReadFile(ts.MkAbs(args[0])); err == nil {
			break
		}
		if time.Now().After(end) {
			ts.Fatalf("%s was not written in %v: %v", args[0], patience, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	addresses := map[string]string{}
	ts.Check(json.Unmarshal(b, &addresses))
	for name, address := range addresses {
		ts.Setenv(strings.ToUpper(name), address)
	}
}

// field sets a variable from a JSON document: field NAME FILE candidates.0.pod.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: field NAME FILE PATH")
	}
	var node any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &node))
	for part := range strings.SplitSeq(args[2], ".") {
		switch n := node.(type) {
		case map[string]any:
			node = n[part]
		case []any:
			i := -1
			if _, err := fmt.Sscan(part, &i); err != nil || i < 0 || i >= len(n) {
				ts.Fatalf("%s: no element %s of %d", args[2], part, len(n))
			}
			node = n[i]
		default:
			ts.Fatalf("%s: nothing below %s", args[2], part)
		}
	}
	ts.Setenv(args[0], fmt.Sprint(node))
}

// count compares the number of lines of a file: count N FILE.
func count(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: count N FILE")
	}
	if got := fmt.Sprint(strings.Count(ts.ReadFile(args[1]), "\n")); (got == args[0]) == neg {
		ts.Fatalf("%s has %s lines", args[1], got)
	}
}

// ask sends a chat request, as a client would: ask GATEWAY MODEL REQUEST-ID TEXT.
// It prints the status, what the gateway told, and the answer.
func ask(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: ask GATEWAY MODEL REQUEST-ID TEXT")
	}
	body, err := json.Marshal(map[string]any{
		"model": args[1], "max_tokens": 4, "messages": []map[string]string{{"role": "user", "content": args[3]}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+args[0]+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header["X-Request-Id"] = []string{args[2]}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "request", resp.Header.Get("X-Request-Id"), "endpoint", resp.Header.Get("X-Eppctl-Endpoint"))
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}

// status runs a command that has to end with a given status: status N COMMAND….
func status(want string, args []string) error {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil && c.ProcessState == nil {
		return err
	}
	if got := fmt.Sprint(c.ProcessState.ExitCode()); got != want {
		return fmt.Errorf("%s ended with status %s, want %s", strings.Join(args, " "), got, want)
	}
	return nil
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
