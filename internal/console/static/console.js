// Keeps an open page up to date: reads the stream of its part that changes, and has times go on in between. No library:
// this is all that is needed. Pages that are not seen have no stream. What is old is said to be, and pale.
'use strict';

const live = document.getElementById('live');
const state = document.getElementById('state');
let since = performance.now(); // times in the part are those of then
let stop = null; // of the stream
let heard = 0; // when
let tick = 1000; // how often something is heard, in ms

// What came of an act is said once, and not again by the same page or its address.
const address = new URL(location);
if (address.searchParams.has('said')) {
  address.searchParams.delete('said');
  history.replaceState(null, '', address);
}

// The page is live, or lost: then what it shows is old.
function say(kind, text) {
  live.classList.toggle('old', kind !== 'live');
  if (state.textContent === text) return;
  state.className = 'state ' + kind;
  state.textContent = text;
}

// The same words as inWords has.
function inWords(ms) {
  const s = Math.floor(Math.max(0, ms) / 1000), f = Math.floor;
  if (s < 60) return s + ' s';
  if (s < 3600) return f(s / 60) + ' min ' + s % 60 + ' s';
  if (s < 86400) return f(s / 3600) + ' h ' + f(s % 3600 / 60) + ' min';
  return f(s / 86400) + ' d ' + f(s % 86400 / 3600) + ' h';
}

function run() {
  if (live.classList.contains('old')) return;
  const passed = performance.now() - since;
  for (const t of live.querySelectorAll('time')) {
    const text = t.dataset.up !== undefined ? inWords(+t.dataset.up + passed) : inWords(t.dataset.down - passed);
    if (t.textContent !== text) t.textContent = text;
  }
}

// Puts a new part into its place. What somebody opened stays open, and the focus stays.
function put(html) {
  const open = [...live.querySelectorAll('details[open]')].map((d) => d.id);
  const all = () => [...live.querySelectorAll('a, button, [tabindex], summary')];
  const at = all().indexOf(document.activeElement);
  const scrolled = [...live.querySelectorAll('.scroll')].map((e) => e.scrollLeft);
  live.innerHTML = html;
  since = performance.now();
  for (const id of open) document.getElementById(id)?.setAttribute('open', '');
  live.querySelectorAll('.scroll').forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
  if (at >= 0) all()[at]?.focus({ preventScroll: true });
}

// What somebody marks, to copy it, stays until he marks it no more.
function isMarked() {
  const marked = getSelection();
  return !marked.isCollapsed && live.contains(marked.anchorNode);
}

// Shows nothing more of what only somebody who is logged in may see, nor what he may do. There is no next stream.
function leave(why) {
  say('lost', why + '.');
  for (const e of document.querySelectorAll('main > :not(.title, #live), .who > *')) e.remove();
  const link = document.createElement('a');
  link.href = live.dataset.login;
  link.textContent = 'Log in again';
  live.replaceChildren(link);
  live.classList.remove('old');
  return -1;
}

// Does what an event says. Returns how long to wait before the page asks again, if the stream ends with it.
function take(event, text) {
  switch (event) {
    case 'replica':
      document.getElementById('replica').textContent = text;
      break;
    case 'part':
      if (isMarked()) {
        say('lost', 'Not live while a text is marked');
        return 1000;
      }
      put(text);
      say('live', 'Live');
      break;
    case 'beat':
      tick = +text;
      break;
    case 'again':
      return 0;
    case 'gone':
      say('lost', 'Not live: ' + text);
      return 1000;
    case 'out':
      return leave(text);
  }
}

// Reads a stream to its end. Returns how long to wait before the next one; below 0 there is to be none.
async function follow(signal) {
  const answer = await fetch(live.dataset.live, { signal, headers: { Accept: 'text/event-stream' } });
  if (!answer.ok) {
    if (answer.status === 401) return leave('You are not logged in any more');
    say('lost', 'Not live: ' + (await answer.text()).slice(0, 200));
    return 10000;
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { value, done } = await reader.read();
    if (done) throw new Error('it ended');
    heard = performance.now();
    const messages = (text + value).split('\n\n');
    text = messages.pop();
    for (const m of messages) {
      const [event, ...data] = m.split('\n').map((line) => line.slice(line.indexOf(': ') + 2));
      const wait = take(event, data.join('\n'));
      if (wait !== undefined) {
        stop.abort();
        return wait;
      }
    }
  }
}

async function keep() {
  for (let wait = 0; wait >= 0 && !document.hidden;) {
    stop = new AbortController();
    heard = performance.now();
    try {
      wait = await follow(stop.signal);
    } catch {
      if (document.hidden) break;
      wait = 1000 + 1000 * Math.random(); // all pages of a replica that ended would come at a time
      say('lost', 'The replica does not answer. This is of ' + new Date().toLocaleTimeString() + '.');
    }
    if (wait > 0) await new Promise((go) => setTimeout(go, wait));
  }
  stop = null;
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden && !stop) keep();
  if (document.hidden) {
    say('lost', 'Not live while it is not seen');
    stop?.abort();
  }
});
setInterval(() => {
  run();
  // A connection that is dead does not say so.
  if (performance.now() - heard > Math.max(5000, 3 * tick)) stop?.abort();
}, 1000);
keep();
