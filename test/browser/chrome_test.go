package browser

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

// chrome is a browser with one page.
type chrome struct {
	t       testing.TB
	to      io.Writer
	session string

	mu      sync.Mutex // guards the fields below
	last    int
	answers map[int]chan message
	wrong   []string // what the page did not like, or asked others for
	asked   map[string]bool
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startChrome runs a browser until the end of the test.
func startChrome(t testing.TB) *chrome {
	t.Helper()
	var program string
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium on this machine; scripts/ensure browser installs one")
	}
	theirs, to, err := os.Pipe()
	harness.Must(t, err)
	from, theirAnswers, err := os.Pipe()
	harness.Must(t, err)
	cmd := exec.CommandContext(t.Context(), program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
		"--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, theirAnswers} // 3 and 4
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it is a script, and has processes of its own
	cmd.WaitDelay = time.Second
	harness.Must(t, cmd.Start())
	_, _ = theirs.Close(), theirAnswers.Close()
	c := &chrome{t: t, to: to, answers: map[int]chan message{}, asked: map[string]bool{}}
	read := make(chan struct{})
	go func() { defer close(read); c.read(from) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()
		_ = to.Close()
		<-read
		_ = from.Close()
		if t.Failed() {
			t.Logf("the browser says: %s", stderr.String())
		}
	})
	var target struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.call(domain+".enable", nil, nil)
	}
	return c
}

// read takes answers and events.
func (c *chrome) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		switch answer := c.answers[m.ID]; {
		case answer != nil:
			delete(c.answers, m.ID)
			answer <- m
		case m.Method == "Runtime.exceptionThrown":
			c.wrong = append(c.wrong, string(m.Params))
		case m.Method == "Log.entryAdded" && bytes.Contains(m.Params, []byte(`"source":"security"`)):
			c.wrong = append(c.wrong, string(m.Params))
		case m.Method == "Network.requestWillBeSent":
			var sent struct{ Request struct{ URL string } }
			_ = json.Unmarshal(m.Params, &sent)
			c.asked[sent.Request.URL] = true
		}
		c.mu.Unlock()
	}
}

// call has the browser do something.
func (c *chrome) call(method string, params map[string]any, result any) {
	c.t.Helper()
	if got := c.ask(method, params); got.Error != nil {
		c.t.Fatalf("%s: %s", method, got.Error.Message)
	} else if result != nil {
		harness.Must(c.t, json.Unmarshal(got.Result, result))
	}
}

// ask asks the browser for something, and returns its answer.
func (c *chrome) ask(method string, params map[string]any) message {
	c.t.Helper()
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.answers[id] = answer
	c.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if params == nil {
		m["params"] = map[string]any{}
	}
	if c.session != "" {
		m["sessionId"] = c.session
	}
	text, err := json.Marshal(m)
	harness.Must(c.t, err)
	_, err = c.to.Write(append(text, 0))
	harness.Must(c.t, err)
	return harness.Soon(c.t, method, answer)
}

// run evaluates a script in the page, and returns what it gives as a text.
func (c *chrome) run(script string) string {
	c.t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails *json.RawMessage
	}
	m := c.ask("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true})
	if m.Error != nil {
		return "exception " + m.Error.Message // the page may be on its way to another one
	}
	harness.Must(c.t, json.Unmarshal(m.Result, &got))
	if got.ExceptionDetails != nil {
		return "exception " + string(*got.ExceptionDetails)
	}
	return fmt.Sprint(got.Result.Value)
}

// open goes to a page and waits until it is there.
func (c *chrome) open(url string) {
	c.t.Helper()
	c.run("document.documentElement.dataset.old = '1'")
	c.call("Page.navigate", map[string]any{"url": url}, nil)
	c.arrived()
}

func (c *chrome) arrived() {
	c.t.Helper()
	c.await("another page", "document.readyState === 'complete' && !document.documentElement.dataset.old")
}

// patience bounds what a page needs. It is far more than a busy machine takes.
const patience = 30 * time.Second

// await waits until a script gives true.
func (c *chrome) await(what, script string) {
	c.t.Helper()
	c.awaitFor(patience, what, script)
}

func (c *chrome) awaitFor(most time.Duration, what, script string) {
	c.t.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c.run(script) == "true" {
			return
		}
	}
	c.t.Fatalf("%s: not so after %v: %s\n%s", what, most, script, c.run("document.body.innerText"))
}

// shows waits until the page has a text.
func (c *chrome) shows(text string) {
	c.t.Helper()
	c.await("a page with "+text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// fill puts a text into a field as a person does.
func (c *chrome) fill(id, text string) {
	c.t.Helper()
	c.run(fmt.Sprintf("document.getElementById(%q).focus()", id))
	c.call("Input.insertText", map[string]any{"text": text}, nil)
}

// click clicks what leads to another page.
func (c *chrome) click(selector string) {
	c.t.Helper()
	c.run("document.documentElement.dataset.old = '1'")
	if got := c.run(fmt.Sprintf("document.querySelector(%q).click()", selector)); strings.HasPrefix(got, "exception") {
		c.t.Fatalf("click %s: %s", selector, got)
	}
	c.arrived()
}

// unfold shows the forms of what may be done.
func (c *chrome) unfold() {
	c.t.Helper()
	if got := c.run("document.querySelector('.acts summary').click()"); strings.HasPrefix(got, "exception") {
		c.t.Fatalf("unfold: %s", got)
	}
}

// axe is a library that finds what keeps people out of pages.
const axe = "../../.cache/browser/node_modules/axe-core/axe.min.js"

// axe has axe look at the page, if scripts/ensure browser fetched it.
func (c *chrome) axe(what string) {
	c.t.Helper()
	script, err := os.ReadFile(axe)
	if err != nil {
		c.t.Logf("axe was not asked about %s: run scripts/ensure browser", what)
		return
	}
	c.run(string(script) + ";0")
	found := c.run(`axe.run().then((r) => r.violations.map((v) =>
		v.id + ': ' + v.help + ': ' + v.nodes.map((n) => n.target + ' ' + (n.any[0]?.message || '')).join('; ')).join('\n'))`)
	if found != "" {
		c.t.Errorf("axe, %s: %s", what, found)
	}
}

// look has the page be so wide, and dark or light.
func (c *chrome) look(width int, scheme string) {
	c.t.Helper()
	c.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	c.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{
			{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
		},
	}, nil)
}

// picture writes what the page looks like.
func (c *chrome) picture(file string) {
	c.t.Helper()
	var got struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &got)
	raw, err := base64.StdEncoding.DecodeString(got.Data)
	harness.Must(c.t, err)
	harness.Must(c.t, os.WriteFile(file, raw, 0o644))
}
