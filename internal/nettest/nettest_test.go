package nettest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusing(t *testing.T) {
	address := Refusing(t)
	if conn, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, %v, want it refused", conn, err)
	}
	if l, err := net.Listen("tcp", address); err == nil {
		l.Close()
		t.Error("somebody else can listen there")
	}
}

func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		address := Free(t)
		l, err := net.Listen("tcp", address)
		if err != nil || seen[address] {
			t.Fatalf("listen at %s, seen %t: %v", address, seen[address], err)
		}
		defer l.Close()
		seen[address] = true
	}
}

// Connections in memory are those of a bubble: its time passes while they wait.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, r.Host)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		transport := &http.Transport{DialContext: l.Dial}
		began := time.Now()
		res, err := (&http.Client{Transport: transport}).Get("http://any.test/")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if took := time.Since(began); err != nil || string(text) != "any.test" || took != time.Hour {
			t.Errorf("%q, %v after %s", text, err, took)
		}
		_ = server.Close()
		serving.Wait()
		transport.CloseIdleConnections()
		if _, err := l.Dial(context.Background(), "", ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial after the end: %v", err)
		}
	})
}
