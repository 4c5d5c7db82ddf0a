package explain_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
)

// documented is what comes as HTML and Markdown.
type documented interface {
	HTML(w io.Writer, opt explain.DocumentOptions) error
	Markdown(w io.Writer, opt explain.DocumentOptions) error
}

func htmlOf(t *testing.T, d documented, opt explain.DocumentOptions) string {
	t.Helper()
	var b strings.Builder
	if err := d.HTML(&b, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func markdownOf(t *testing.T, d documented, opt explain.DocumentOptions) string {
	t.Helper()
	var b strings.Builder
	if err := d.Markdown(&b, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// goldenDocuments leaves the style sheet and the JSON document out of the HTML: they
// have files of their own.
func goldenDocuments(t *testing.T, name string, d documented) {
	t.Helper()
	page := htmlOf(t, d, explain.DocumentOptions{})
	page = regexp.MustCompile(`(?s)<style>.*</style>`).ReplaceAllString(page, "<style></style>")
	page = regexp.MustCompile(`(?s)<pre>.*</pre>`).ReplaceAllString(page, "<pre></pre>")
	golden.Equal(t, "testdata/"+name+".html", page)
	golden.Equal(t, "testdata/"+name+".md", markdownOf(t, d, explain.DocumentOptions{}))
}

// documents are all that the scenes give.
func documents(t *testing.T) map[string]documented {
	t.Helper()
	out := map[string]documented{}
	for name, s := range scenes() {
		rec := recordOf(name, s)
		r := explain.Explain(rec, explain.Options{Flips: 3})
		for i := range rec.Candidates {
			if versus, err := explain.WhyNot(rec, rec.Candidates[i].Endpoint); err == nil {
				r.Versus = versus
			}
		}
		r.Conversation = explain.Converse(rec, nil)
		out[name] = r
	}
	for _, q := range questions {
		out["whatif-"+q.name] = whatIf(t, questioned(q.scene), q.changes)
	}
	return out
}

// An HTML page is read as XML, strictly: what a name could slip in would be an
// element or an attribute that is not of the few that there are.
func TestHTMLIsInert(t *testing.T) {
	attributes := map[string]*regexp.Regexp{
		"lang": regexp.MustCompile(`^en$`), "charset": regexp.MustCompile(`^utf-8$`), "scope": regexp.MustCompile(`^col$`),
		"name": regexp.MustCompile(`^(viewport|color-scheme)$`), "content": regexp.MustCompile(`^(width=device-width, initial-scale=1|light dark|default-src 'none'; style-src 'unsafe-inline')$`),
		"http-equiv": regexp.MustCompile(`^Content-Security-Policy$`), "class": regexp.MustCompile(`^(scroll|number|bar|strong|faint|good|warn|bad)$`),
		"style": regexp.MustCompile(`^width:\d{1,3}\.\d%$`), "data-column": nil,
	}
	elements := strings.Fields("html head meta title style body main h1 h2 p ul li code small dl dt dd div table thead tbody tr th td span i details summary pre")
	for name, d := range documents(t) {
		decoder := xml.NewDecoder(strings.NewReader(htmlOf(t, d, explain.DocumentOptions{All: true})))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch token := token.(type) {
			case xml.Comment, xml.ProcInst:
				t.Errorf("%s: %T in the page", name, token)
			case xml.StartElement:
				if !slices.Contains(elements, token.Name.Local) {
					t.Errorf("%s: element %s", name, token.Name.Local)
				}
				for _, a := range token.Attr {
					if value, known := attributes[a.Name.Local]; !known || value != nil && !value.MatchString(a.Value) {
						t.Errorf("%s: attribute %s=%q", name, a.Name.Local, a.Value)
					}
				}
			}
		}
	}
}

// The page loads nothing: its style names no address.
func TestHTMLIsSelfContained(t *testing.T) {
	page := htmlOf(t, explain.Explain(clearWin().record(), explain.Options{}), explain.DocumentOptions{})
	for _, not := range []string{"url(", "@import", "http:", "https:", "<script", "<link", " src="} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
	for _, want := range []string{"prefers-color-scheme: dark", "@media print", "max-width: 44rem", "viewport"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// textOfHTML is what a reader sees, without the folded JSON, and that.
func textOfHTML(t *testing.T, page string) (seen, folded string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(page))
	into, skip := &seen, false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return seen, folded
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			skip = token.Name.Local == "style"
			if token.Name.Local == "pre" {
				into = &folded
			}
		case xml.EndElement:
			skip = false
			*into += " "
		case xml.CharData:
			if !skip {
				*into += string(token)
			}
		}
	}
}

// shownMarkdown undoes the escapes, as a program that shows Markdown does.
func shownMarkdown(text string) string {
	text = regexp.MustCompile(`\\([!-/:-@\[-`+"`"+`{-~])`).ReplaceAllString(text, "$1")
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "\u2060", "", "**", "", "<br>", " ").Replace(text)
}

// Neither form loses what the report knows.
func TestDocumentsHoldEveryFact(t *testing.T) {
	flat := func(text string) string { return strings.Join(strings.Fields(strings.ReplaceAll(text, "**", "")), " ") }
	for name, s := range scenes() {
		r := explain.Explain(recordOf(name, s), explain.Options{})
		seen, folded := textOfHTML(t, htmlOf(t, r, explain.DocumentOptions{All: true}))
		markdown := shownMarkdown(markdownOf(t, r, explain.DocumentOptions{All: true}))
		for _, fact := range documentFacts(r) {
			fact = flat(explain.Sanitize(fact))
			if !strings.Contains(flat(seen), fact) {
				t.Errorf("%s: the page has no %q", name, fact)
			}
			if !strings.Contains(flat(markdown), fact) {
				t.Errorf("%s: the Markdown has no %q", name, fact)
			}
		}
		var back map[string]any
		if err := json.Unmarshal([]byte(folded), &back); err != nil || back["requestID"] != r.RequestID {
			t.Errorf("%s: the folded JSON does not read: %v", name, err)
		}
	}
}

// documentFacts are those of the text, but for the factors of the excluded: they are
// in the JSON.
func documentFacts(r *explain.Report) []string {
	cut := *r
	cut.Excluded = slices.Clone(r.Excluded)
	for i := range cut.Excluded {
		cut.Excluded[i].Factors = nil
	}
	out := slices.DeleteFunc(facts(&cut), func(fact string) bool { return strings.HasPrefix(fact, "waiting for the rest") })
	for i := range out {
		out[i] = strings.TrimPrefix(out[i], "attempts: ") // key and text are apart
	}
	for _, n := range r.Notes {
		out = append(out, n.Cause)
	}
	if r.Ladder != nil {
		for _, s := range r.Ladder.Steps {
			out = append(out, s.Name)
			for _, loss := range s.Lost {
				out = append(out, fmt.Sprintf("-%d: %s", loss.Tokens, loss.Cause))
			}
		}
	}
	return out
}

// bare finds a character that means something in Markdown and is not escaped.
var bare = regexp.MustCompile("(^|[^\\\\])(\\\\\\\\)*[`\\[\\]{}~$#]|<[^b/]|(^|[^\\\\])://|www\\.|@[a-z]|\x1b|\u202e")

func TestMarkdownIsInert(t *testing.T) {
	for name, d := range documents(t) {
		text := markdownOf(t, d, explain.DocumentOptions{All: true})
		cells := 0
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if found := bare.FindString(strings.TrimPrefix(line, "### ")); found != "" {
				t.Errorf("%s: %q in %q", name, found, line)
			}
			bars := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			switch {
			case !strings.HasPrefix(line, "|"):
				cells = 0
				if bars > 0 {
					t.Errorf("%s: a bar in %q", name, line)
				}
			case cells == 0:
				cells = bars
			case bars != cells:
				t.Errorf("%s: %d bars, not %d, in %q", name, bars, cells, line)
			}
		}
	}
}

func TestMarkdownNamesNobody(t *testing.T) {
	s := clearWin()
	s.edit = func(rec *explain.Record) { rec.Request.Model = "1. @channel a@b - +x" }
	text := markdownOf(t, explain.Explain(s.record(), explain.Options{}), explain.DocumentOptions{})
	if !strings.Contains(text, "@\u2060channel a@b") {
		t.Errorf("the mention is not parted:\n%s", text)
	}
}

func TestAPoolOf500StaysReadable(t *testing.T) {
	r := explain.Explain(crowd().record(), explain.Options{})
	for name, show := range map[string]func(all bool) string{
		"text": func(all bool) string { return textOf(t, r, explain.TextOptions{Width: 200, All: all}) },
		"html": func(all bool) string {
			seen, _ := textOfHTML(t, htmlOf(t, r, explain.DocumentOptions{All: all}))
			return seen
		},
		"markdown": func(all bool) string { return shownMarkdown(markdownOf(t, r, explain.DocumentOptions{All: all})) },
	} {
		few, all := show(false), show(true)
		if n := len(few); n > 12_000 {
			t.Errorf("%s: %d bytes", name, n)
		}
		if pods := strings.Count(few, "7f9c6d5b8-"); pods > 25 {
			t.Errorf("%s: names %d pods", name, pods)
		}
		for _, want := range []string{"the-owner", "the prompt", "124", "not-ready", "125", "not-in-subset", "and 119 more"} {
			if !strings.Contains(strings.Join(strings.Fields(few), " "), want) {
				t.Errorf("%s: has no %q:\n%s", name, want, few)
			}
		}
		for _, want := range []string{"7f9c6d5b8-00499", "7f9c6d5b8-00000"} {
			if !strings.Contains(all, want) || strings.Count(all, "7f9c6d5b8-") < 499 {
				t.Errorf("%s: not all pods", name)
			}
		}
	}
}
