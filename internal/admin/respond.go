package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/picker"
)

// apiError is a failure with its HTTP status.
type apiError struct {
	status int
	doc    Failure
}

// Error implements error.
func (e *apiError) Error() string { return e.doc.Error.Message }

func fail(status int, code, message string) *apiError {
	return &apiError{status, Failure{Document: document("Failure"), Error: FailureText{Code: code, Message: message}}}
}

func badRequest(format string, args ...any) *apiError {
	return fail(http.StatusBadRequest, CodeBadRequest, fmt.Sprintf(format, args...))
}

func (e *apiError) hint(text string) *apiError {
	e.doc.Error.Hint = text
	return e
}

// quoted is a piece of a request in a message: printable and bounded.
func quoted(text string) string {
	const most = 80
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// shown is an ID in a message: as it is when a request could have it.
func shown(id string) string {
	if kept, replaced := picker.RequestID(id); kept == id && !replaced {
		return id
	}
	return quoted(id)
}

// answer writes a document with status 200.
func answer(w http.ResponseWriter, r *http.Request, doc any) error {
	return write(w, r, http.StatusOK, doc)
}

func write(w http.ResponseWriter, r *http.Request, status int, doc any) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("encode %T: %w", doc, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // the client may have gone
	}
	return nil
}

// answerError writes a failure. What is not an apiError is logged and shown as
// internal, without its text: that may hold what a client must not see.
func (s *server) answerError(w http.ResponseWriter, r *http.Request, err error) {
	failure, ok := errors.AsType[*apiError](err)
	if !ok {
		if r.Context().Err() != nil {
			return // the client has gone
		}
		s.Logger.ErrorContext(r.Context(), "admin request failed", slog.String(logkey.Path, r.URL.Path), slog.Any(logkey.Error, err))
		failure = fail(http.StatusInternalServerError, CodeInternal, "the picker could not answer").hint("its log says why")
	}
	if err := write(w, r, failure.status, failure.doc); err != nil {
		s.Logger.ErrorContext(r.Context(), "admin request failed", slog.Any(logkey.Error, err))
	}
}
