package sim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// The tokeniser of its own that engines have with [Config.OwnTokens].
const (
	ownMask = 0x00a5c39e // exclusive or with an id of package request
	ownMark = 1          // stands before every prompt, as a BOS token does
)

// encoded are the engines' ids for ids of package request.
func (f *Fleet) encoded(ids []uint32) []uint32 {
	if !f.cfg.OwnTokens {
		return ids
	}
	own := slices.Clone(ids)
	for i := range own {
		own[i] ^= ownMask
	}
	return own
}

// prompt are the engines' ids for a prompt.
func (f *Fleet) prompt(ids []uint32, special bool) []uint32 {
	own := f.encoded(ids)
	if f.cfg.OwnTokens && special {
		own = slices.Insert(own, 0, ownMark)
	}
	return own
}

// appendText turns ids of the engines back into text.
func (f *Fleet) appendText(dst []byte, ids []uint32) []byte {
	return request.AppendText(dst, f.encoded(ids)...) // encoding twice is decoding
}

// SlowTokenise makes a pod's /tokenize take so much longer, in wall time: whoever
// asks for ids waits by the wall's clock.
func (f *Fleet) SlowTokenise(name string, by time.Duration) error {
	return f.change(name, func(s *faults) { s.tokenise = max(by, 0) })
}

func (s *server) tokenize(w http.ResponseWriter, r *http.Request) {
	body, failure := readBody(w, r)
	if failure != nil {
		writeError(w, failure)
		return
	}
	req, err := request.Tokenize(body)
	if err != nil {
		writeError(w, fromParser(err))
		return
	}
	if req.Model != "" {
		if _, failure := s.adapter(req.Model); failure != nil {
			writeError(w, failure)
			return
		}
	}
	if by := s.pod.currentFaults().tokenise; by > 0 {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			cut()
		}
	}
	ids := s.pod.fleet.prompt(req.Tokens, special(req.Kind, body))
	writeJSON(w, http.StatusOK, struct {
		Count       int      `json:"count"`
		MaxModelLen int      `json:"max_model_len"`
		Tokens      []uint32 `json:"tokens"`
		TokenStrs   []string `json:"token_strs"`
	}{Count: len(ids), MaxModelLen: vllm.DefaultMaxLength, Tokens: append([]uint32{}, ids...)})
}

// special says whether a prompt gets its mark: a text does unless it is asked not
// to, a chat always, by its template.
func special(kind request.Kind, body []byte) bool {
	var doc struct {
		Special *bool `json:"add_special_tokens"`
	}
	_ = json.NewDecoder(bytes.NewReader(body)).Decode(&doc) // it was read before; what is no boolean is as if absent
	return kind == request.ChatCompletions || doc.Special == nil || *doc.Special
}
