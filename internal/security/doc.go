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
// Nothing is allowed because something is missing: an empty list of names allows no name, a token that is wrong is not
// passed over for a certificate that is right, and who is nobody in the file is refused, unless the file has an entry
// for all such. Without a file at all there is no Guard and no Client, and everybody may do everything.
//
// # What it does not promise
//
// It does not end what a client has when a right is taken away: session and broker do, when Guard tells them that the
// file changed. It knows no lists of revoked certificates. Quotas are counted in package limits.
package security
