// Package examine looks whether a Redis server is what lockd needs.
//
// # What it promises
//
// It changes nothing. It ends within the bound of a connection and four operations, whatever the server does. What it
// is not allowed to look at is a finding, too, with the right that is missing.
//
// # What it does not promise
//
// That things stay as it found them. Nothing is refused because of a finding: package renew refuses servers that lockd
// cannot use, and they are not looked at here.
//
// # How it goes
//
// Some commands on a new connection measure the round trip and the server's clock. One pipeline then asks everything
// else, so that a distant server costs few round trips. The checks only read the answers.
package examine
