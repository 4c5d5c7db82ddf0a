package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Error is what a client is told when its request cannot be served. It never
// holds text of the request itself, only the name of a field.
type Error struct {
	// Status is the HTTP status of the answer.
	Status int
	// Param is the field at fault, as in "messages[2].content"; "" when the
	// fault is not in one field.
	Param string
	// Code is a stable word for programs, as in "model_not_found"; "" for none.
	Code string
	// Message says what is wrong and what would be right.
	Message string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Param == "" {
		return e.Message
	}
	return e.Param + ": " + e.Message
}

// ErrorBody is e as an OpenAI error object, with the type that clients'
// libraries map to an exception.
func ErrorBody(e *Error) []byte {
	doc := errorDocument{Error: errorObject{
		Message: e.Message,
		Type:    errorType(e.Status),
		Param:   orNull(e.Param),
		Code:    orNull(e.Code),
	}}
	body, err := json.Marshal(doc)
	if err != nil { // strings always marshal
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":null}}`)
	}
	return append(body, '\n')
}

// WriteError answers with err as an OpenAI error object. What is not an
// [*Error] becomes a plain 500 without its text, which may speak of internals.
func WriteError(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Status: http.StatusInternalServerError, Message: "internal error"}
	}
	body := ErrorBody(e)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // the client may be gone; there is nobody else to tell
}

type errorDocument struct {
	Error errorObject `json:"error"`
}

type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func errorType(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	}
	if status >= http.StatusInternalServerError {
		return "server_error"
	}
	return "invalid_request_error"
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// invalid is a 400 that names the field.
func invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}
