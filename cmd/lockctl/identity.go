package main

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strings"
	"unicode/utf8"
)

// maxClientName is the server's bound, in bytes.
const maxClientName = 128

// client is the name under which lockctl is seen: by default who runs which command where, such as
// "alice@web1 pid 4711 exec ./report.sh".
func (o *options) client(command ...string) string {
	if o.clientName != "" {
		return o.clientName
	}
	return fittingName(fmt.Sprintf("%s pid %d %s", person(), os.Getpid(), strings.Join(command, " ")))
}

// person is who runs lockctl and where, such as "alice@web1".
func person() string {
	who := cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"))
	if u, err := user.Current(); err == nil && u.Username != "" {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fittingName(cmp.Or(who, "unknown") + "@" + host)
}

// fittingName is a name, cut and escaped so that the server takes it.
func fittingName(name string) string {
	name = printable(name)
	for len(name) > maxClientName || !utf8.ValidString(name) {
		name = name[:min(len(name), maxClientName+1)-1]
	}
	return name
}
