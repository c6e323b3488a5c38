// Keeps an open page up to date: reads the stream of its part that changes, and has times go on in between. No library:
// this is all that is needed. Pages that are not seen have no stream.
'use strict';

const live = document.getElementById('live');
const state = document.getElementById('state');
let since = performance.now(); // times in the part are those of then
let stop = null; // of the stream
let heard = 0;

function say(kind, text) {
  if (state.className !== 'state ' + kind || state.textContent !== text) {
    state.className = 'state ' + kind;
    state.textContent = text;
  }
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
  const passed = performance.now() - since;
  for (const t of live.querySelectorAll('time')) {
    const text = t.dataset.up !== undefined ? inWords(+t.dataset.up + passed) : inWords(t.dataset.down - passed);
    if (t.textContent !== text) t.textContent = text;
  }
}

// Puts a new part into its place. What somebody opened stays open, what he marks stays, and so does the focus.
function put(html) {
  const marked = getSelection();
  if (!marked.isCollapsed && live.contains(marked.anchorNode)) return;
  const open = [...live.querySelectorAll('details[open]')].map((d) => d.id);
  const all = () => [...live.querySelectorAll('a, [tabindex], summary')];
  const at = all().indexOf(document.activeElement);
  const scrolled = [...live.querySelectorAll('.scroll')].map((e) => e.scrollLeft);
  live.innerHTML = html;
  since = performance.now();
  for (const id of open) document.getElementById(id)?.setAttribute('open', '');
  live.querySelectorAll('.scroll').forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
  if (at >= 0) all()[at]?.focus({ preventScroll: true });
}

// Returns how long to wait before the next try; nothing if there is to be none.
async function follow(signal) {
  const answer = await fetch(live.dataset.live, { signal, headers: { Accept: 'text/event-stream' } });
  if (answer.status === 401) {
    say('lost', 'You are not logged in any more. Load the page again.');
    return;
  }
  if (!answer.ok) {
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
      if (event === 'part') put(data.join('\n'));
      if (event === 'gone') {
        say('lost', 'Not live: ' + data.join(' ') + '.');
        return 3000;
      }
    }
    say('live', 'Live');
  }
}

async function keep() {
  while (!document.hidden) {
    stop = new AbortController();
    let wait = 2000;
    heard = performance.now();
    try {
      wait = await follow(stop.signal);
    } catch {
      if (document.hidden) break;
      say('lost', 'The replica does not answer. This is what it told at ' + new Date().toLocaleTimeString() + '.');
    }
    if (wait === undefined) return;
    await new Promise((go) => setTimeout(go, wait));
  }
  stop = null;
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden && !stop) keep();
  if (document.hidden) stop?.abort();
});
setInterval(() => {
  run();
  if (stop && performance.now() - heard > 25000) stop.abort(); // a connection that is dead and does not say so
}, 1000);
keep();
