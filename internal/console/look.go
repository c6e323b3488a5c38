package console

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"
)

// What looks may cost.
const (
	fresh     = time.Second     // what was looked up counts for so long
	lookTime  = 5 * time.Second // that one may take
	mostLooks = 4               // at a time
	mostKept  = 512
)

// errBusy is told when a bound is reached.
var errBusy = errors.New("this replica has too much to show at the moment; try again")

// cache has what was looked up lately. Who asks for the same waits for the one who is looking it up.
type cache struct {
	mu  sync.Mutex // guards the field below
	all map[string]*kept
}

// kept is something that is being looked up, or was.
type kept struct {
	until time.Time     // it counts; set before the end of done
	done  chan struct{} // ends when it is there
	value any
	err   error
}

func newCache() *cache { return &cache{all: map[string]*kept{}} }

// get returns what is kept by a key, or has look find it. What was found counts for so long.
func (c *cache) get(ctx context.Context, key string, counts time.Duration, look func() (any, error)) (any, error) {
	k, mine := c.enter(key)
	if k == nil {
		return nil, errBusy
	}
	if !mine {
		select {
		case <-k.done:
			return k.value, k.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() {
		k.until = time.Now().Add(counts)
		close(k.done)
	}()
	k.value, k.err = look()
	return k.value, k.err
}

// enter is what is kept by a key, nil if there is no room. It says whether the caller has to look.
func (c *cache) enter(key string) (k *kept, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if k := c.all[key]; k != nil && !k.isOver(now) {
		return k, false
	}
	if len(c.all) >= mostKept {
		for other, k := range c.all {
			if k.isOver(now) {
				delete(c.all, other)
			}
		}
	}
	if len(c.all) >= mostKept {
		return nil, false
	}
	k = &kept{done: make(chan struct{})}
	c.all[key] = k
	return k, true
}

func (k *kept) isOver(now time.Time) bool {
	select {
	case <-k.done:
		return !now.Before(k.until)
	default:
		return false
	}
}

// part is the part of a page that changes.
type part struct {
	html []byte
	code int
	mark uint64 // another one if anything but times that run is different
}

// part is that of a view for somebody: what he may see is the same for all who are his client.
func (c *Console) part(a asker, v *view, q url.Values) (part, error) {
	q = v.query(q)
	got, err := c.looks.get(a.ctx, a.client+"\x00"+v.path+"?"+q.Encode(), fresh, func() (any, error) {
		// Others wait for it: it goes on when the one who asked leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), lookTime)
		defer cancel()
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return c.failed(errBusy), nil
		}
		found, err := v.look(c, asker{ctx, a.client, a.byLogin}, q)
		if err != nil {
			return c.failed(err), nil //nolint:nilerr // it is shown
		}
		return c.written(v.part, partOf{c.cfg.Path, q, found}, http.StatusOK), nil
	})
	if err != nil {
		return part{}, err
	}
	return got.(part), nil
}

// partOf is what the template of a part has.
type partOf struct {
	Base  string
	Query url.Values
	Found any
}

// failed is a part that says what went wrong.
func (c *Console) failed(err error) part {
	f := failure(err)
	return c.written("failed", partOf{Base: c.cfg.Path, Found: explained(f)}, httpCode(f.GetCode()))
}

var seed = maphash.MakeSeed()

func (c *Console) written(name string, data partOf, code int) part {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, data); err != nil {
		c.log.Error("a page cannot be written", zap.Error(err))
		return part{html: []byte("<p class=bad>The page cannot be written.</p>"), code: http.StatusInternalServerError}
	}
	p := part{html: out.Bytes(), code: code}
	var h maphash.Hash
	h.SetSeed(seed)
	rest := p.html
	for { // the script has times run by itself
		before, time, found := bytes.Cut(rest, []byte("<time "))
		_, _ = h.Write(before)
		if !found {
			break
		}
		_, rest, _ = bytes.Cut(time, []byte("</time>"))
	}
	p.mark = h.Sum64()
	return p
}
