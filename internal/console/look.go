package console

import (
	"bytes"
	"context"
	"hash/maphash"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// What looks may cost.
const (
	fresh     = time.Second     // what was looked up counts for so long
	lookTime  = 5 * time.Second // that one may take
	mostLooks = 4               // at a time
	mostKept  = 512
	keptOfOne = 384 // of these of one client
	mostBytes = 64 << 20
	bytesEach = 48 << 20 // of these of one client
)

// errBusy is told when a bound is reached.
var errBusy = status.Error(codes.ResourceExhausted, "this replica has too much to show at the moment; try again")

// cache has what was looked up lately. Whoever asks for the same waits for the one who is looking it up. Keys begin
// with who asks, and a zero byte. What does not count any more takes no room, even if nobody looks.
type cache struct {
	mu     sync.Mutex // guards the fields below
	all    map[string]*kept
	closed bool
}

// kept is something that is being looked up, or was.
type kept struct {
	done  chan struct{} // ends when it is there; value and err are set before
	value any
	err   error

	bytes int         // guarded by cache.mu, as the next one
	ends  *time.Timer // nil while it is being looked up
}

// get returns what is kept by a key, or calls look to find it. What was found is kept for counts.
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
		c.keep(key, k, counts)
		close(k.done)
	}()
	k.value, k.err = look()
	return k.value, k.err
}

// enter is what is kept by a key, nil if there is no room. If mine, the caller has to look.
func (c *cache) enter(key string) (k *kept, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.all[key]; k != nil {
		return k, false
	}
	if n, _ := c.ofLocked(key); n >= keptOfOne || len(c.all) >= mostKept {
		return nil, false
	}
	k = &kept{done: make(chan struct{})}
	c.all[key] = k
	return k, true
}

// ofLocked is how much is kept of the client of a key.
func (c *cache) ofLocked(key string) (n, bytes int) {
	of, _, _ := strings.Cut(key, "\x00")
	for other, k := range c.all {
		if strings.HasPrefix(other, of+"\x00") {
			n, bytes = n+1, bytes+k.bytes
		}
	}
	return n, bytes
}

// keep keeps what was found, if there is room. An error is not kept, so that what nobody may ask for takes no room.
func (c *cache) keep(key string, k *kept, counts time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[key] != k { // forgotten meanwhile
		return
	}
	bytes, all := bytesOf(k.value), 0
	for _, other := range c.all {
		all += other.bytes
	}
	_, ofOne := c.ofLocked(key)
	if k.err != nil || counts <= 0 || c.closed || all+bytes > mostBytes || ofOne+bytes > bytesEach {
		delete(c.all, key)
		return
	}
	k.bytes = bytes
	k.ends = time.AfterFunc(counts, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.all[key] == k {
			delete(c.all, key)
		}
	})
}

// forget drops everything, as something was changed. Those who wait for a look get what it finds.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, k := range c.all {
		if k.ends != nil {
			k.ends.Stop()
		}
		delete(c.all, key)
	}
}

// close forgets everything, and keeps nothing any more.
func (c *cache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.forget()
}

// bytesOf is about how much memory something takes that is kept.
func bytesOf(value any) (n int) {
	switch v := value.(type) {
	case part:
		return len(v.html)
	case history:
		for _, e := range v.events {
			n += proto.Size(e)
		}
	case proto.Message:
		return proto.Size(v)
	}
	return n
}

// part is the part of a page that changes.
type part struct {
	html []byte
	code int
	mark uint64 // differs if anything but times that run does
}

// part is the part of a view that changes. All who look as one client may see the same.
func (c *Console) part(ctx context.Context, a *asker, v *view, q url.Values) part {
	q = v.query(q)
	got, err := c.looks.get(ctx, a.client+"\x00"+v.Path+"?"+q.Encode(), fresh, func() (any, error) {
		// Others wait for it: it goes on when the one who asked leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		defer cancel()
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return c.failed(errBusy), nil
		}
		found, err := v.look(ctx, c, a, q)
		if err != nil {
			return c.failed(err), nil
		}
		return c.written(v.Name, partOf{c.cfg.Path, q, found}, http.StatusOK), nil
	})
	if err != nil {
		return c.failed(err)
	}
	return got.(part)
}

// partOf is what the template of a part has.
type partOf struct {
	Base  string
	Query url.Values
	Found any
}

// failed is a part that says what went wrong.
func (c *Console) failed(err error) part {
	return c.written("failed", partOf{Base: c.cfg.Path, Found: explained(err)}, httpCode(err))
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
