package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sample() *Report {
	return &Report{
		Pod: "sim-0", Epoch: 1764472380000, Seq: 7, Full: true, Model: "base", BlockSize: 16,
		Chains: []Chain{
			{Root: true, Blocks: []uint64{1, 0xfedcba9876543210}},
			{Adapter: "fr", SaltHash: strings.Repeat("a1", 16), Parent: 2, Blocks: []uint64{3}},
		},
		Removed: []uint64{9, 0}, Adapters: []string{"fr"},
		QueueDepth: new(3), GPUUtilization: new(0.5), Health: new(1.0),
		TakenAt: time.Date(2026, 11, 30, 3, 13, 0, 0, time.UTC),
	}
}

func TestEncodeDecode(t *testing.T) {
	unknown := sample()
	unknown.QueueDepth, unknown.GPUUtilization, unknown.Health = nil, nil, nil
	unknown.Chains, unknown.Removed, unknown.Adapters, unknown.Full = nil, nil, nil, false
	for name, want := range map[string]*Report{"everything": sample(), "unknown state": unknown} {
		t.Run(name, func(t *testing.T) {
			body, err := Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(bytes.NewReader(body), Limits{})
			if err != nil {
				t.Fatalf("Decode(%s): %v", body, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWireForm(t *testing.T) {
	body, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"pod":"sim-0","epoch":1764472380000,"seq":7,"full":true,"model":"base","blockSize":16,` +
		`"chains":[{"adapter":"","saltHash":"","parent":"","blocks":["0000000000000001","fedcba9876543210"]},` +
		`{"adapter":"fr","saltHash":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1","parent":"0000000000000002","blocks":["0000000000000003"]}],` +
		`"removed":["0000000000000009","0000000000000000"],"adapters":["fr"],"queueDepth":3,"gpuUtilization":0.5,"health":1,` +
		`"takenAt":"2026-11-30T03:13:00Z"}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeNamesThePlace(t *testing.T) {
	good, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"short fingerprint", `"fedcba9876543210"`, `"xyz"`, `chains[0].blocks[1]: "xyz" is not 16 hex digits`},
		{"long fingerprint", `"fedcba9876543210"`, `"fedcba98765432100"`, `chains[0].blocks[1]: "fedcba98765432100" is not 16 hex digits`},
		{"upper case", `"fedcba9876543210"`, `"FEDCBA9876543210"`, `chains[0].blocks[1]: "FEDCBA9876543210" is not 16 hex digits`},
		{"a number", `"0000000000000003"`, `3`, `chains[1].blocks[0]: "3" is not 16 hex digits`},
		{"blocks not a list", `["0000000000000003"]`, `{}`, `chains[1].blocks[0]: is not a list`},
		{"blocks empty", `["0000000000000003"]`, `[]`, `chains[1].blocks: is empty`},
		{"parent", `"parent":"0000000000000002"`, `"parent":"root"`, `chains[1].parent: "root" is not 16 hex digits`},
		{"no parent", `"parent":"",`, ``, `chains[0].parent: is missing; "" is the root`},
		{"removed", `"0000000000000009"`, `"9"`, `removed[0]: "9" is not 16 hex digits`},
		{"salt", `"saltHash":"a1`, `"saltHash":"z1`, `chains[1].saltHash: want 32 lower-case hex digits or nothing`},
		{"adapter", `"adapters":["fr"]`, `"adapters":["a\u0000"]`, `adapters[0]: want an adapter's name`},
		{"adapter of a chain", `"adapter":"fr"`, `"adapter":"\u001b[2J"`, `chains[1].adapter: want an adapter's name or nothing`},
		{"pod", `"pod":"sim-0"`, `"pod":""`, `pod: want the pod's name, printable and at most 253 bytes`},
		{"model", `"model":"base",`, ``, `model: want the base model's name`},
		{"seq", `"seq":7`, `"seq":0`, `seq: must count from 1 and stay below 2^53`},
		{"negative seq", `"seq":7`, `"seq":-7`, `seq: want uint64, have number -7 (before byte 45)`},
		{"epoch", `"epoch":1764472380000`, `"epoch":9007199254740993`, `epoch: must be below 2^53`},
		{"block size", `"blockSize":16`, `"blockSize":0`, `blockSize: want tokens per block, 1 to 65536`},
		{"queue", `"queueDepth":3`, `"queueDepth":-1`, `queueDepth: must be a count; leave it out when unknown`},
		{"utilisation", `"gpuUtilization":0.5`, `"gpuUtilization":-0.5`, `gpuUtilization: must not be negative; leave it out when unknown`},
		{"health", `"health":1`, `"health":1.5`, `health: must be from 0 to 1; leave it out when unknown`},
		{"time", `"takenAt":"2026-11-30T03:13:00Z"`, `"takenAt":"0001-01-01T00:00:00Z"`, `takenAt: is missing`},
		{"unknown field", `"seq":7`, `"seq":7,"sequence":8`, `body: json: unknown field "sequence"`},
		{"two values", `"takenAt":"2026-11-30T03:13:00Z"}`, `"takenAt":"2026-11-30T03:13:00Z"}{}`, `byte 458: more than one JSON value`},
		{"cut off", `,"takenAt":"2026-11-30T03:13:00Z"}`, ``, `body: ends too early`},
		{"not UTF-8", `"base"`, "\"\xff\"", `body: not valid UTF-8`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := strings.Replace(string(good), tt.old, tt.new, 1)
			if body == string(good) {
				t.Fatalf("%s does not stand in the sample", tt.old)
			}
			_, err := Decode(strings.NewReader(body), Limits{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("Decode: %v\nwant    %s", err, tt.want)
			}
		})
	}
}

func TestErrorsAreBounded(t *testing.T) {
	for _, body := range []string{`{"` + strings.Repeat("x", 1<<20) + `":1}`, `{"seq":` + strings.Repeat("9", 1<<20) + `}`} {
		if _, err := Decode(strings.NewReader(body), Limits{}); err == nil || len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes for a field of a megabyte", len(err.Error()))
		}
	}
}

func TestDecodeLimits(t *testing.T) {
	body, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(bytes.NewReader(body), Limits{Bytes: int64(len(body)) - 1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte over the limit: %v, want ErrTooLarge", err)
	}
	if _, err := Decode(bytes.NewReader(body), Limits{Bytes: int64(len(body)), Blocks: 5}); err != nil {
		t.Errorf("at the limits: %v", err)
	}
	_, err = Decode(bytes.NewReader(body), Limits{Blocks: 4})
	if e, ok := errors.AsType[*Error](err); !ok || e.Place != "chains" {
		t.Errorf("one block over the limit: %v, want an error for chains", err)
	}
}

func TestReportsRoundTrip(t *testing.T) {
	chain := rapid.Custom(func(t *rapid.T) Chain {
		c := Chain{Root: rapid.Bool().Draw(t, "root"), Blocks: rapid.SliceOfN(rapid.Uint64(), 1, 40).Draw(t, "blocks")}
		if !c.Root {
			c.Parent = rapid.Uint64().Draw(t, "parent")
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		want := sample()
		want.Chains = rapid.SliceOfN(chain, 1, 8).Draw(t, "chains")
		want.Seq = rapid.Uint64Range(1, 1<<53-1).Draw(t, "seq")
		body, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(bytes.NewReader(body), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzDecode(f *testing.F) {
	good, err := Encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"0000000000000003"`), []byte(` , "" ,`), 1))
	f.Add([]byte(`{"chains":[{"blocks":["`))
	f.Add([]byte(`{"removed":["\u0030000000000000000"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Decode(bytes.NewReader(body), Limits{Blocks: 1000})
		if err != nil {
			return
		}
		again, err := Encode(r)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := Decode(bytes.NewReader(again), Limits{Blocks: 1000})
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	r := sample()
	r.Chains[0].Blocks = make([]uint64, 32_768)
	body, err := Encode(r)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(bytes.NewReader(body), Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
