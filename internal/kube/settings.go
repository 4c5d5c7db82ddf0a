package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// SettingsKey is the key of a ConfigMap under which the picker's settings are, and
// settingsAnnotation the pool's that names the ConfigMap.
const (
	SettingsKey        = "eppctl.yaml"
	settingsAnnotation = "eppctl.dev/config"
)

// settingsName is the ConfigMap that a pool names; the zero Name for none. It is in the
// pool's namespace.
func settingsName(p *InferencePool) Name {
	name := p.Annotations[settingsAnnotation]
	if name == "" {
		return Name{}
	}
	if len(name) > maxObjectName {
		name = strings.ToValidUTF8(name[:maxObjectName], "") + "…" // which no object is called
	}
	return Name{p.Namespace, name}
}

func settingsOf(name Name, c *corev1.ConfigMap) SettingsMap {
	text, found := c.Data[SettingsKey]
	return SettingsMap{Name: name, Found: found, YAML: text}
}

// RefusedSettingsError says that the ConfigMap with the settings may not be read.
type RefusedSettingsError struct{ text string }

// Error implements error.
func (e *RefusedSettingsError) Error() string { return e.text }

// ReadSettings reads the ConfigMap that is named, or else the one that the pool
// names, once. Found is false when there is none, or no such key. The error is a
// [*RefusedSettingsError] when it may not be read.
func (c *Cluster) ReadSettings(ctx context.Context, named, of Name) (SettingsMap, error) {
	if named == (Name{}) {
		p, err := c.Pool(ctx, of)
		if step, ok := errors.AsType[*StepError](err); ok && step.Trouble == Missing {
			return SettingsMap{}, nil // it may come later
		}
		if err != nil {
			return SettingsMap{}, err
		}
		if named = settingsName(p); named == (Name{}) {
			return SettingsMap{}, nil
		}
		if !named.possible() {
			return SettingsMap{Name: named}, nil // so there is none
		}
	}
	client, err := c.core()
	if err != nil {
		return SettingsMap{Name: named}, err
	}
	m, err := answer[corev1.ConfigMap](client.Get().Namespace(named.Namespace).Resource("configmaps").Name(named.Name).Do(ctx))
	switch {
	case apierrors.IsNotFound(err):
		return SettingsMap{Name: named}, nil
	case err != nil:
		s := source{gv: corev1.SchemeGroupVersion, resource: "configmaps", namespace: named.Namespace}
		text := fmt.Sprintf("ConfigMap %s: %s", named, explain("get", &s, err))
		if apierrors.IsForbidden(err) {
			return SettingsMap{Name: named}, &RefusedSettingsError{text}
		}
		return SettingsMap{Name: named}, errors.New(text)
	}
	return settingsOf(named, m), nil
}
