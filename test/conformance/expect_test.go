package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// hear takes an answer, which tells fences of holds, or an event.
func (p *play) hear(h *heard, holds []string) {
	p.mu.Lock()
	p.told = append(p.told, h)
	fences, _ := h.fields["fences"].([]any)
	if fence, ok := h.fields["fence"]; ok && h.event == "" {
		fences = []any{fence}
	}
	for i, hold := range holds {
		if i < len(fences) {
			p.fences[hold], _ = numberOf(fences[i])
		}
	}
	p.mu.Unlock()
	p.notify()
}

// notify has await look again.
func (p *play) notify() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// await waits for the first thing told that was not expected before and is wanted.
func (p *play) await(what string, wanted func(*heard) bool) (*heard, error) {
	timeout := time.After(p.patience)
	for {
		trouble := p.trouble() // before what is there is looked at: nothing comes after it
		if h := p.take(wanted); h != nil {
			return h, nil
		}
		if trouble != nil {
			return nil, fmt.Errorf("waiting for %s: %w", what, trouble)
		}
		select {
		case <-p.news:
		case <-timeout:
			return nil, fmt.Errorf("not within %v: %s", p.patience, what)
		}
	}
}

// take uses the first thing that is wanted.
func (p *play) take(wanted func(*heard) bool) *heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.told {
		if !h.used && wanted(h) {
			h.used = true
			return h
		}
	}
	return nil
}

// trouble says why nothing more can come from a driver.
func (p *play) trouble() error {
	for _, d := range p.drivers {
		if err := d.trouble(); err != nil {
			return err
		}
	}
	return nil
}

// unused is what was told and not expected, for people.
func (p *play) unused() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, h := range p.told {
		if !h.used {
			all = append(all, h.text)
		}
	}
	return strings.Join(all, " ")
}

// expect waits for what a step expects: an event, or the answer to the command of this key.
func (p *play) expect(s step, key string) error {
	e := s.expect
	if e == nil {
		e = &expectation{}
	}
	if e.event != "" {
		return p.expectEvent(e)
	}
	h, err := p.await("the answer to "+key, func(h *heard) bool { return h.event == "" && h.key == key })
	if err != nil {
		return err
	}
	switch err := failed(h); {
	case errors.Is(err, errUnsupported):
		return err
	case h.failed != e.fails:
		return fmt.Errorf("%s is answered %s", key, h.text)
	}
	if took := h.at.Sub(h.sentAt).Milliseconds(); e.within != 0 && took > e.within {
		return fmt.Errorf("the answer took %d ms, want %d at most", took, e.within)
	}
	return p.check(e.wants, h)
}

// expectEvent waits for an event. The answer to a command that should wait ends that.
func (p *play) expectEvent(e *expectation) error {
	what := fmt.Sprint("the event ", e.event, " ", e.about)
	h, err := p.await(what, func(h *heard) bool {
		if e.event == "queued" && h.event == "" && h.key == e.about["hold"] {
			return true
		}
		return h.event == e.event && isAbout(h, e.about)
	})
	switch {
	case err != nil:
		return err
	case h.event == "":
		return fmt.Errorf("it should wait, and is answered: %s", h.text)
	}
	return p.check(e.wants, h)
}

func isAbout(h *heard, about map[string]string) bool {
	for field, value := range about {
		if h.fields[field] != value {
			return false
		}
	}
	return true
}

// check compares the fields of what was told.
func (p *play) check(wants []want, h *heard) error {
	p.mu.Lock()
	fences := maps.Clone(p.fences)
	p.mu.Unlock()
	for _, w := range wants {
		if err := w.check(p.plain(h.fields[w.field]), fences); err != nil {
			return fmt.Errorf("%w, in %s", err, h.text)
		}
	}
	return nil
}

// plain is a value without the prefix of the play's names.
func (p *play) plain(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Replace(v, p.prefix(), "", 1)
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = p.plain(v[i])
		}
		return v
	case json.Number, bool, nil:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// failed is the error in an answer.
func failed(h *heard) error {
	switch {
	case h == nil || !h.failed:
		return nil
	case h.fields["error"] == "UNSUPPORTED":
		return fmt.Errorf("%s: %w: %s", h.key, errUnsupported, h.text)
	default:
		return errors.New(h.text)
	}
}
