// Package console is pages for people: what is locked, by whom, who waits, what is wrong; and a few acts: to release a
// lock by force, to end a session, to set the limit of a semaphore.
//
// # What it promises
//
// Whatever it shows and does it asks by Calls, as the one who looks: his certificate, or the token that he gave in the
// form. So he sees and may what lockctl with the same credentials sees and may, and the audit has it. Without a clients
// file it only shows.
//
// Many open pages cost little. What one client looks at is looked up and written at most once in a second, whoever of
// its people looks; there is a bound for what is looked up at a time, for what is kept, and for the pages that are
// open, in all and for each client. All open pages together are told at most 100 times in a second.
//
// Nothing that clients chose, as names, is more than a text: it is escaped by html/template, and characters that are
// not seen, or turn a text around, are shown as what they are. The pages load nothing from elsewhere, have no script in
// them, and cannot be framed; what changes something needs a word of a page of the same client, and is refused if
// another site asks for it.
//
// # What it does not promise
//
// That a logout ends a login everywhere: the token is in the cookie, and only this replica refuses it. That a page
// shows everything: it has so many lines, and says so.
//
// # How a page comes
//
// Each page is a view (views.go): a function that makes calls, and a template. The page is the template in a frame; the
// part that changes is also sent alone, again and again, to the script of a page that is open (live.go). Without a
// script the page is loaded again. There is no library in it: all that a page needs is to read a stream and to put a
// text into its place, which is a few lines of our own (static/console.js).
package console
