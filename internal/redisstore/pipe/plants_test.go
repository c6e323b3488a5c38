package pipe

import (
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
)

const here = "internal/redisstore/pipe/"

// plants are mistakes about connections that were given up, each with the test that is there to find it.
var plants = []struct {
	name, found string
	all         []proctest.Plant
}{
	{"an earlier connection is not ended", lateTest, []proctest.Plant{
		{here + "unended.go", `err = c.Do(ctx, "client", "kill", "id", one.id).Err()`, "err = nil"},
	}},
	{"an earlier connection is not remembered", lateTest, []proctest.Plant{
		{here + "way.go", "		p.dialer.Unended.add(c)\n", ""},
	}},
	{"an earlier connection is ended when the next one is used already", lateTest, []proctest.Plant{{
		here + "dialer.go", "		if err := d.Unended.endAt(ctx, client, me); err != nil {", `
		u := d.Unended
		if time.AfterFunc(d.timeout, func() { _ = u.endAt(context.Background(), client, me) }); false {`,
	}}},
	{"a connection to another server is forgotten", "TestAFailOverLeadsBackToAServer", []proctest.Plant{{
		here + "unended.go", "	for _, one := range u.at(me.run) {",
		"	all := u.at(me.run)\n	u.all = nil\n	for _, one := range all {",
	}}},
	{"a server that refuses is used at once", "TestAServerThatRefusesToEndConnections", []proctest.Plant{
		{here + "unended.go", "err != nil && time.Since(one.closed) < underWay {", "err == errNotEnded {"},
	}},
}

const lateTest = "TestNothingOfAConnectionThatWasGivenUpComesAfterTheNextAnswer"

func TestPlantedBugsAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) { proctest.Finds(t, p.found, p.all) })
	}
}
