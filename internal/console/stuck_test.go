package console_test

import (
	"net/http"
	"strings"
	"testing"
)

// A job of two programs: one holds what all others want, and the other one waits. Who looks at the first is led to what
// the second waits for.
func TestWhatAJobWaitsForIsToldOfAllItsSessions(t *testing.T) {
	w := start(t)
	migration, deploy, step := w.session("migration"), w.session("deploy"), w.session("step")
	deploy.actor, step.actor = "secret-job", "secret-job"
	migration.take("schema")
	deploy.take("prod")
	step.queue("schema")
	w.session("other").queue("prod")
	ops := w.login("ops-token")
	_, body := ops.get("/sessions?client=migration")
	migrates := cutBetween(body, `/session?id=`, `"`)
	_, body = ops.get("/sessions?client=deploy")
	deploys := cutBetween(body, `/session?id=`, `"`)
	for path, texts := range map[string][]string{
		"/":                 {"for prod", "for schema", `It waits for</b> <a href="/lock?name=schema">`, "!secret-job"},
		"/lock?name=prod":   {`It waits</b> for <a href="/lock?name=schema">`, " UTC)", `href="/blockers"`},
		"/lock?name=schema": {"for schema", "!waits</b> for"},
		"/blockers": {
			"/session?id=" + migrates, ">for schema<", "holds schema", "2 others behind it", "holds prod",
			"1 other behind it, waits itself", `for <a href="/lock?name=schema">`,
			"<b><bdi>other</bdi></b> waits for", "it sticks here",
			`of <b><bdi>deploy</bdi></b> <span class="quiet"><bdi>for prod</bdi></span> waits for`,
			`<a href="/session?id=` + deploys + `"><bdi>deploy</bdi></a>`, "!secret-job",
		},
	} {
		code, body := ops.get(path)
		wants(t, path, code, http.StatusOK, body, texts...)
	}
	// A session that waits with one thread may go on with others.
	deploy.actor, step.actor = "", ""
	idle := w.session("idle")
	idle.take("free")
	idle.queue("schema")
	w.session("another").queue("free")
	code, body := ops.get("/lock?name=free")
	wants(t, "a session", code, http.StatusOK, body, `Its session waits</b> for <a href="/lock?name=schema">`)
}

func cutBetween(text, begin, end string) string {
	_, text, _ = strings.Cut(text, begin)
	text, _, _ = strings.Cut(text, end)
	return text
}
