// Package security says who a client is and what it may.
//
// # What it promises
//
// There is one clients file. Each of its entries is a Client: how it is recognised, which names it may lock and look
// at, what operators' verbs it may use, and how much it may have. A Guard has the file that is in force. It reads the
// file again when it changes. A file with a mistake changes nothing: the one before stays in force, and that is said in
// the log and in a metric.
//
// Who somebody is is found out once for each stream and each unary call, from a certificate that TLS has verified or
// from a token (Guard.Identify). What it may is asked for each name, of what is in force at that moment: a Client keeps
// its identity while its rights change, so a right that was taken away is gone for all streams at once.
//
// Keys of issuers of tokens are read from files or asked for, in the background, and when a token names a key that is
// not known. That is bounded: tokens with made-up keys cause at most one question in 10 s, or one in a second for keys
// that are read from a file or while no keys are known, and who waits for one issuer holds up nobody else. While an
// issuer cannot be asked, the keys that it had stay good. A verified token is kept until it expires or its key is gone,
// so that a call costs no signature.
//
// What was denied, and what operators did, is told to the audit. It never blocks whoever tells it, and each client has
// so many lines and no more; what is not written is counted, and told in the client's next line.
//
// Nothing is allowed because something is missing: an empty list of names allows no name, a token that is wrong is not
// passed over for a certificate that is right, and a caller that matches no entry is refused, unless the file has an
// entry for all such. Without a file at all there is no Guard and no Client, and everybody may do everything.
//
// # What it does not promise
//
// It does not end what a client has when a right is taken away: session and broker do, when Guard tells them that the
// file changed. It knows no lists of revoked certificates. A key that its issuer takes away ends no stream that began
// with it. A clients file is used when it has stayed as it is for a moment, about two seconds after it was written at
// most: until then the one before is in force. Static tokens must be random: the file has a plain hash of them. Quotas
// are counted in package limits.
package security
