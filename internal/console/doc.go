// Package console is pages for people: what is locked, by whom, who waits, what is wrong; and a few acts: to release a
// lock by force, to end a session, to set the limit of a semaphore.
//
// # What it promises
//
// The console shows and does everything by Calls, as the one who looks: with his certificate, or the token that he gave
// in the form. So he sees and may do what he sees and may do with lockctl and the same credentials, and the audit has
// it. Without a clients file the console only shows.
//
// Many open pages cost little. What one client looks at is looked up and written at most once in a second, however many
// people look. There are bounds for what is looked up at a time, and, in all and for each client, for what is kept and
// for open pages. All open pages together are told at most 100 times in a second.
//
// What clients chose, such as names, is never more than text: html/template escapes it, and characters that are not
// seen, or reorder a text, are shown as escapes. The pages load nothing from elsewhere, have no script in them, and
// cannot be framed. What changes something needs a secret of a page of the same client, and is refused if another site
// asks for it.
//
// # What it does not promise
//
// That a logout ends a login everywhere: the token is in the cookie, and only this replica refuses it. That a page
// shows everything: the number of its lines is bounded, and it says when it leaves some out.
//
// # How a page comes
//
// Each page is a view (views.go): a function that makes calls, and a template. The page is the template in a frame; the
// part that changes is also sent alone, again and again, to the script of a page that is open (live.go). Without a
// script the page is loaded again. There is no library in it: all that a page needs is to read a stream and to put a
// text into its place, which is a few lines of our own (static/console.js).
package console
