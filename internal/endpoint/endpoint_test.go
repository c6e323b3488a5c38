package endpoint

import "testing"

func TestWhatCannotBeOpenAtTheSameTime(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want bool
	}{
		{":1", "127.0.0.1:1", true},
		{"127.0.0.1:1", "0.0.0.0:1", true},
		{"[::]:1", "localhost:1", true},
		{"localhost:1", "localhost:1", true},
		{"localhost:1", "127.0.0.2:1", false}, // nothing is looked up
		{":1", ":2", false},
		{":0", ":0", false},
		{"unix:/run/a", "unix:/run/a", true},
		{"unix:/run/a", "unix:/run/b", false},
		{"unix:/run/a", ":1", false},
		{"", "", false},
		{"nowhere", "", false},
	} {
		a, _ := parse(row.a)
		b, _ := parse(row.b)
		if a.excludes(b) != row.want || b.excludes(a) != row.want {
			t.Errorf("%s and %s: want %v", row.a, row.b, row.want)
		}
	}
}

func TestWhereOneCanListenAndWhoReachesThat(t *testing.T) {
	for _, row := range []struct {
		text      string
		ok, local bool
	}{
		{":1", true, false},
		{"h:0", true, false},
		{"0.0.0.0:65535", true, false},
		{"[::1]:1", true, true},
		{"127.8.8.8:1", true, true},
		{"localhost:1", true, true},
		{"unix:/run/a", true, true},
		{"unix:a", false, true},
		{"h", false, false},
		{"h:65536", false, false},
		{"h:01", false, false},
		{"h:http", false, false},
	} {
		if l, ok := parse(row.text); ok != row.ok || l.isLocal() != row.local {
			t.Errorf("%s: got %v, local %v", row.text, ok, l.isLocal())
		}
	}
}
