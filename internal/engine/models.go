package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Model is one entry of a server's /v1/models.
type Model struct {
	ID string
	// Root is what the model was loaded from; Parent is the base model's ID for
	// an adapter, and empty for a base model.
	Root, Parent string
	// MaxLen is the longest prompt plus answer, in tokens; 0 when not said.
	MaxLen int
}

// Bounds of [ParseModels].
const (
	maxModelsBytes = 1 << 20
	maxModels      = 4096
)

// ParseModels reads the answer to GET /v1/models. An answer without a list is
// an error, an empty list is not.
func ParseModels(body io.Reader) ([]Model, error) {
	var list struct {
		Data *[]struct {
			ID     string   `json:"id"`
			Root   string   `json:"root"`
			Parent string   `json:"parent"`
			MaxLen *float64 `json:"max_model_len"`
		} `json:"data"`
	}
	text, err := io.ReadAll(bounded(body, maxModelsBytes))
	if err != nil {
		return nil, fmt.Errorf("read list of models: %w", err)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("list of models is malformed: %w", err)
	}
	if list.Data == nil {
		return nil, errors.New(`list of models has no "data"`)
	}
	if len(*list.Data) > maxModels {
		return nil, fmt.Errorf("list of models has more than %d entries", maxModels)
	}
	models := make([]Model, 0, len(*list.Data))
	for i, d := range *list.Data {
		if d.ID == "" {
			return nil, fmt.Errorf("list of models has no id in entry %d", i)
		}
		m := Model{ID: d.ID, Root: d.Root, Parent: d.Parent}
		if d.MaxLen != nil && *d.MaxLen >= 1 && *d.MaxLen <= 1<<40 {
			m.MaxLen = int(*d.MaxLen)
		}
		models = append(models, m)
	}
	return models, nil
}
