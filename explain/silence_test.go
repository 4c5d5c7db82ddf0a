package explain

import (
	"testing"
	"time"
)

func TestSilenceInASentence(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		silence Silence
		want    string
	}{
		{Silence{Since: at.Add(-130*time.Second - time.Millisecond), Pods: 12}, "cluster: API server away for 2m10s, routing on the last known 12 pods"},
		{Silence{Since: at.Add(-time.Second), Of: `pods in namespace "prod"`, Pods: 1}, `cluster: no news of pods in namespace "prod" for 1s, routing on the last known 1 pod`},
		{Silence{Since: at.Add(time.Hour)}, "cluster: API server away for 0s, routing on the last known 0 pods"},
	} {
		if got := c.silence.Text(at); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
