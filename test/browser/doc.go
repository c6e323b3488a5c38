// Package browser tests the console as people have it: a real lockd, and a headless Chromium that is driven over its
// DevTools protocol by a pipe, which needs no library. Without a Chromium its tests are skipped, and say so.
//
// With -pictures DIR it writes a picture of each page at two widths, dark and light.
package browser
