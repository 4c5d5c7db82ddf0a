package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Types of bodies.
const (
	jsonType  = "application/json"
	applyType = "application/apply-patch+yaml"
	mergeType = "application/merge-patch+json"
)

const (
	forced         = "force=true&fieldManager=e2e" // how an object is applied
	maxAnswerBytes = 64 << 20
)

// Apply applies the documents of a YAML text, as `kubectl apply --server-side` does.
// Those without a namespace go to the test's.
func (c *Cluster) Apply(text string) {
	c.tb.Helper()
	if err := c.servers.apply(c.Namespace, text, forced); err != nil {
		c.tb.Fatal(err)
	}
}

// DryRun says what the API server has against the documents of a YAML text, and
// changes nothing. Fields that the server does not know count.
func (c *Cluster) DryRun(text string) error {
	c.tb.Helper()
	return c.servers.apply(c.Namespace, text, "dryRun=All&fieldValidation=Strict&"+forced)
}

// Patch merges JSON, or YAML, into an object.
func (c *Cluster) Patch(ref Ref, patch string) {
	c.tb.Helper()
	body, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		c.tb.Fatal(err)
	}
	c.must(http.MethodPatch, c.path(ref), mergeType, body)
}

// Get reads an object, or a list of all of its kind when ref names none.
func (c *Cluster) Get(ref Ref, into any) {
	c.tb.Helper()
	if err := json.Unmarshal(c.must(http.MethodGet, c.path(ref), "", nil), into); err != nil {
		c.tb.Fatal(err)
	}
}

// Delete deletes an object at once.
func (c *Cluster) Delete(ref Ref) {
	c.tb.Helper()
	c.must(http.MethodDelete, c.path(ref)+"?gracePeriodSeconds=0", "", nil)
}

// A Ref names an object, in the test's namespace if its kind has namespaces.
type Ref struct {
	APIVersion, Kind, Name string
}

// PodRef names a pod.
func PodRef(name string) Ref { return Ref{"v1", "Pod", name} }

// PoolRef names an InferencePool v1.
func PoolRef(name string) Ref { return Ref{"inference.networking.k8s.io/v1", "InferencePool", name} }

func (c *Cluster) path(ref Ref) string {
	c.tb.Helper()
	path, err := c.servers.path(c.Namespace, ref)
	if err != nil {
		c.tb.Fatal(err)
	}
	return path
}

// must asks as admin.
func (c *Cluster) must(method, path, contentType string, body []byte) []byte {
	c.tb.Helper()
	answer, err := c.servers.request(context.Background(), method, path, contentType, body)
	if err != nil {
		c.tb.Fatal(err)
	}
	return answer
}

// request asks the API server as admin; an answer that is no success is an error.
func (s *servers) request(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+Admin)
	req.Header.Set("Accept", jsonType)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return answer(s.client, req)
}

func answer(client *http.Client, req *http.Request) ([]byte, error) {
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		text := string(body)
		var status metav1.Status
		if json.Unmarshal(body, &status) == nil && status.Message != "" {
			text = status.Message
		}
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, res.Status, text)
	}
	return body, nil
}

// apply applies each document of a text; the errors of all are told.
func (s *servers) apply(namespace, text, query string) error {
	var problems []error
	for _, document := range separator.Split(text, -1) {
		var object struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			problems = append(problems, err)
			continue
		}
		if object.Kind == "" && strings.TrimSpace(comments.ReplaceAllString(document, "")) == "" {
			continue
		}
		path, err := s.path(cmp.Or(object.Metadata.Namespace, namespace), Ref{object.APIVersion, object.Kind, object.Metadata.Name})
		if err == nil {
			_, err = s.request(context.Background(), http.MethodPatch, path+"?"+query, applyType, []byte(document))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", object.Kind, object.Metadata.Name, err))
		}
	}
	return errors.Join(problems...)
}

var (
	separator = regexp.MustCompile(`(?m)^---.*$`)
	comments  = regexp.MustCompile(`(?m)^\s*#.*$`)
)

// path is where an object is found, or all of its kind when it has no name.
func (s *servers) path(namespace string, ref Ref) (string, error) {
	base := "/apis/" + ref.APIVersion
	if !strings.Contains(ref.APIVersion, "/") {
		base = "/api/" + ref.APIVersion
	}
	resource, err := s.resource(base, ref.Kind)
	if err != nil {
		return "", err
	}
	path := base
	if resource.Namespaced {
		path += "/namespaces/" + namespace
	}
	path += "/" + resource.Name
	if ref.Name != "" {
		path += "/" + url.PathEscape(ref.Name)
	}
	return path, nil
}

// resource looks a kind up. What is not there now may be there later.
func (s *servers) resource(base, kind string) (metav1.APIResource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := func(r metav1.APIResource) bool { return r.Kind == kind && !strings.Contains(r.Name, "/") }
	i := slices.IndexFunc(s.resources[base], named)
	if i < 0 {
		answer, err := s.request(context.Background(), http.MethodGet, base, "", nil)
		if err != nil {
			return metav1.APIResource{}, err
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(answer, &list); err != nil {
			return metav1.APIResource{}, err
		}
		s.resources[base] = list.APIResources
		if i = slices.IndexFunc(list.APIResources, named); i < 0 {
			return metav1.APIResource{}, fmt.Errorf("%s has no kind %q", base, kind)
		}
	}
	return s.resources[base][i], nil
}
