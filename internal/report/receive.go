package report

import (
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// Receiver takes reports that were decoded. from is the sender's IP address; an
// error means that the sender is not who it says, and nothing was applied.
type Receiver interface {
	Report(r *Report, from string) (resync bool, err error)
}

// The results that a handler counts.
const (
	ResultApplied   = "applied"
	ResultResync    = "resync"
	ResultMalformed = "malformed"
	ResultForbidden = "forbidden"
)

// Handler serves POST /v1/reports. token is the bearer token that senders must
// show; "" = none is asked for. count is told each result; it may be nil.
func Handler(to Receiver, token string, count func(result string)) http.Handler {
	if count == nil {
		count = func(string) {}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/reports", func(w http.ResponseWriter, req *http.Request) {
		if !Authorized(req, token) {
			count(ResultForbidden)
			refuse(w, http.StatusUnauthorized, "a bearer token is needed that this picker knows")
			return
		}
		r, err := Decode(req.Body, Limits{})
		if err != nil {
			count(ResultMalformed)
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		host, _, err := net.SplitHostPort(req.RemoteAddr)
		if err != nil {
			host = req.RemoteAddr
		}
		resync, err := to.Report(r, host)
		if err != nil {
			count(ResultForbidden)
			refuse(w, http.StatusForbidden, err.Error())
			return
		}
		if resync {
			count(ResultResync)
		} else {
			count(ResultApplied)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Reply{Resync: resync}) // the sender may be gone; it will resend
	})
	return mux
}

// Authorized reports whether the request shows the token as its bearer; "" = none is
// asked for. It takes the same time whatever is shown.
func Authorized(req *http.Request, token string) bool {
	if token == "" {
		return true
	}
	scheme, shown, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(shown), []byte(token)) == 1
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": message}})
}
