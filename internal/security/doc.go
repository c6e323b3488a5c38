// Package security says who a client is and what it may.
//
// # What it promises
//
// There is one clients file. Each of its entries is a Client: how it is recognised, which names it may lock and look
// at, what operators' verbs it may use, and how much it may have. A Guard has the file that is in force. It reads the
// file again when it changes. A file with a mistake changes nothing: the one before stays in force, and that is said in
// the log and in a metric.
//
// A caller is identified once for each stream and each unary call, from a certificate that TLS has verified or from a
// token (Guard.Identify). Its rights are looked up for each name, in what is in force at that moment: a Client keeps
// its identity while its rights change, so a right that was taken away is gone for all streams at once.
//
// Keys of issuers of tokens are read from files or fetched from URLs, in the background, and when a token names an
// unknown key. That is bounded: tokens with made-up keys cause one fetch in 10 s at most, or one in a second for keys
// that are read from a file or while no keys are known. Callers who wait for one issuer hold up nobody else. While an
// issuer cannot be reached, the keys that it had stay good. A verified token is kept until it expires or its key is
// gone, so that a call costs no check of a signature.
//
// The audit is told what was denied and what operators did. It never blocks its caller. The lines of each client are
// bounded; those that are not written are counted, and the client's next line tells how many.
//
// Nothing is allowed because something is missing: an empty list of names allows no name, a bad token is not passed
// over for a good certificate, and a caller that matches no entry is refused, unless the file has a default entry.
// Without a file there is no Guard and no Client, and everybody may do everything.
//
// # What it does not promise
//
// It does not end what a client has when a right is taken away: session and broker do, when Guard tells them that the
// file changed. It knows no lists of revoked certificates. A key that its issuer takes away ends no stream that began
// with it. A new clients file is used once it has not changed for a moment, about two seconds after it was written at
// most. Static tokens must be random: the file has a plain hash of them. Quotas are counted in package limits.
package security
