package kube

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// strangeError is an answer of another kind than was asked for.
type strangeError struct{ came, asked string }

// Error implements error.
func (e *strangeError) Error() string {
	return fmt.Sprintf("it sends %s in place of %s", e.came, e.asked)
}

// anObject is a pointer to an object T.
type anObject[T any] interface {
	*T
	runtime.Object
}

// answer is the object that a request ended with. One of another kind is a
// [*strangeError]: client-go would leave it out, as if there was nothing.
func answer[T any, P anObject[T]](r rest.Result) (P, error) {
	out, err := r.Get()
	object, ok := out.(P)
	switch {
	case ok:
		return object, nil
	case runtime.IsMissingKind(err), runtime.IsNotRegisteredError(err):
		body, _ := r.Raw() // it was read without an error
		return nil, &strangeError{kindIn(body), nameOfKind(P(new(T)))}
	case err != nil:
		return nil, err
	}
	return nil, &strangeError{nameOfKind(out), nameOfKind(P(new(T)))}
}

// nameOfKind is what messages call an object.
func nameOfKind(o runtime.Object) string {
	kinds, _, err := scheme().ObjectKinds(o)
	if err != nil {
		return fmt.Sprintf("a %T", o)
	}
	return kinds[0].Kind + " (" + kinds[0].GroupVersion().String() + ")"
}

// kindIn is what messages call what is no known object.
func kindIn(body []byte) string {
	var about metav1.TypeMeta
	if err := json.Unmarshal(body, &about); err == nil && about.Kind != "" {
		return cutTo(100, about.Kind) + " (" + cutTo(100, about.APIVersion) + ")"
	}
	return fmt.Sprintf("%q, which has no kind,", cutTo(50, string(body)))
}
