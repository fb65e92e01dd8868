// Live: asks the handler for figures once a second while the page is visible, keeps three minutes of
// them and one point every ten seconds of the hour before, of which the handler has what was before the page was opened, and takes the parts the server draws (tables, sizes, stacks) from the page itself.
const $ = id => document.getElementById(id);
const first = JSON.parse($("first").textContent);
const pool = first.pool, params = "?pool=" + encodeURIComponent(pool); // "" is the overview of all pools
const outage = 5e3; // milliseconds without an answer after which a line is cut
const main = $("main"), endpoint = main.dataset.endpoint; // undefined but on the page of a server or client
const keep = "tarn:" + location.pathname + ":" + (endpoint === undefined ? pool : "calls:" + endpoint);
let history = [], rates = new Map(), paused = false, tick = 0, failures = 0;

function restore() {
  try {
    const old = JSON.parse(sessionStorage.getItem(keep)) || [];
    history = old.filter(p => p.t > Date.parse(first.time) - hour);
  } catch { history = []; }
}
// forget thins out what is older than three minutes, and drops what is older than an hour.
function forget() {
  const now = history[history.length - 1].t;
  let last = 0;
  history = history.filter(p => {
    if (p.t > now - span) return true;
    if (p.t <= now - hour || !p.cut && p.t - last < step - 500) return false;
    last = p.t;
    return true;
  });
}
// recall puts what the handler has kept before what this page has seen.
function recall(past) {
  const points = past.pool ? past.pool.map(p => ({ t: p.t, use: p.in_use_bytes, pin: null, idle: p.idle_bytes, gets: p.gets, hits: p.hits })) : past.calls || [];
  const oldest = history.length ? history[0].t : Infinity, before = [];
  for (const p of points) {
    if (p.t >= oldest) break;
    const last = before[before.length - 1], cut = !last || p.t - last.t > 3 * step;
    before.push({ ...p, cut, started: past.started, ...change(cut ? undefined : last, p) });
  }
  if (!before.length || !history.length) return;
  const last = before[before.length - 1], next = history[0];
  if (next.started === past.started && next.t - last.t < 3 * step) Object.assign(next, { cut: false }, next.rate === null ? change(last, next) : {});
  history = before.concat(history);
  forget();
}
// change is what happened a second between two points, of a pool or of calls.
function change(before, now) {
  const calls = now.calls !== undefined;
  if (!before) return calls ? { rate: null, errors: null, mean: null } : { rate: null, hit: null };
  const seconds = (now.t - before.t) / 1000;
  if (!calls) {
    const gets = Math.max(now.gets - before.gets, 0);
    return { rate: gets / seconds, hit: gets ? Math.min(Math.max(now.hits - before.hits, 0) / gets, 1) : null };
  }
  const done = Math.max(now.done - before.done, 0);
  return { rate: Math.max(now.calls - before.calls, 0) / seconds, errors: Math.max(now.failed - before.failed, 0) / seconds,
    mean: done ? Math.max(now.seconds - before.seconds, 0) / done : null };
}

// takeCalls adds what a server or client did since the last answer.
let methods = new Map();
function takeCalls(snapshot) {
  const e = (snapshot.endpoints || []).find(e => e.name === endpoint);
  if (!e) return;
  const t = Date.parse(snapshot.time), last = history[history.length - 1];
  if (last && t <= last.t) return;
  const cut = !last || last.started !== snapshot.started || t - last.t > outage, before = cut ? undefined : last;
  const now = { t, cut, started: snapshot.started, calls: e.calls, done: e.done, failed: e.failed, seconds: e.seconds };
  Object.assign(now, change(before, now));
  const next = new Map();
  for (const m of e.methods || []) {
    const had = methods.get(m.name), rate = had && t > had.t ? 1000 * Math.max(m.started - had.started, 0) / (t - had.t) : undefined;
    next.set(m.name, { t, started: m.started, rate });
  }
  methods = next;
  history.push(now);
  forget();
}
function showCalls() {
  const p = history[history.length - 1];
  if (p && p.rate !== null && $("calls-rate")) {
    $("calls-rate").textContent = count(p.rate);
    $("errors-rate").textContent = count(p.errors);
    $("mean-now").textContent = p.mean === null ? "–" : time(p.mean);
  }
  for (const row of document.querySelectorAll("tr[data-method]")) {
    const m = methods.get(row.dataset.method);
    if (m && m.rate !== undefined) row.querySelector(".rate").textContent = count(m.rate);
  }
}
function time(seconds) {
  const [n, unit] = seconds < 1e-3 ? [seconds * 1e6, "µs"] : seconds < 1 ? [seconds * 1e3, "ms"] : [seconds, "s"];
  return Number(n.toPrecision(3)) + " " + unit;
}

function take(snapshot) {
  const p = snapshot.pools.find(q => q.name === pool);
  if (!p) return;
  const t = Date.parse(snapshot.time), last = history[history.length - 1];
  if (last && t <= last.t) return;
  const restarted = last && last.started !== snapshot.started, cut = !last || restarted || t - last.t > outage;
  const before = cut ? undefined : last;
  if (restarted) rates.clear();
  const now = { t, cut, started: snapshot.started, use: p.in_use_bytes, pin: p.pinned_bytes, idle: p.idle_bytes, peak: p.peak_bytes, budget: p.budget_bytes,
    gets: p.gets, hits: p.hits, classes: Object.fromEntries((p.classes || []).map(c => [c.size, c.gets])) };
  Object.assign(now, change(before, now));
  if (before) {
    const seconds = (t - before.t) / 1000;
    for (const c of p.classes || []) {
      const had = before.classes && before.classes[c.size];
      const values = rates.get(c.size) || [];
      values.push(had === undefined ? 0 : Math.max(c.gets - had, 0) / seconds);
      rates.set(c.size, values.slice(-60));
    }
  }
  if (last) delete last.classes;
  history.push(now);
  forget();
}

const perSecond = value => drawLine(value, v => [0, round(Math.max(...v, 1)), count]);
const ofCalls = !$("calls") ? [] : [
  new Chart($("calls"), perSecond(p => p.rate), (p, ago) => `${since(ago)}\n${p.rate === null ? "–" : count(p.rate) + " calls/s"}`),
  new Chart($("errors"), perSecond(p => p.errors), (p, ago) => `${since(ago)}\n${p.errors === null ? "–" : count(p.errors) + " errors/s"}`),
  new Chart($("mean"), drawLine(p => p.mean, v => [0, round(Math.max(...v, 1e-6)), time]), (p, ago) => `${since(ago)}\n${p.mean === null ? "no calls" : time(p.mean)}`),
];
const charts = endpoint !== undefined ? ofCalls : !pool ? [] : [
  new Chart($("memory"), drawMemory, (p, ago) => `${since(ago)}\nin use ${bytes(p.use)}\n  of it unseen ${p.pin === null ? "–" : bytes(p.pin)}\nidle ${bytes(p.idle)}`),
  new Chart($("hits"), drawLine(p => p.hit, v => { const low = Math.floor(Math.min(...v) * 20 - 0.5) / 20; return [Math.max(low, 0), 1, percent]; }), (p, ago) => `${since(ago)}\n${p.hit === null ? "no gets" : percent(p.hit) + " hits"}`),
  new Chart($("gets"), drawLine(p => p.rate, v => [0, round(Math.max(...v, 1)), count]), (p, ago) => `${since(ago)}\n${p.rate === null ? "–" : count(p.rate) + " gets/s"}`),
];

function show() {
  for (const c of charts) c.render(history);
  if (endpoint !== undefined) { showCalls(); return; }
  const p = history[history.length - 1];
  if (p && p.rate !== null) {
    $("rate").textContent = count(p.rate);
    $("hit").textContent = p.hit === null ? "–" : percent(p.hit);
  }
  for (const row of document.querySelectorAll("tr[data-class]")) {
    const values = rates.get(+row.dataset.class);
    if (!values) continue;
    row.querySelector(".rate").textContent = count(values[values.length - 1]);
    row.querySelector("td.spark").innerHTML = spark(values);
  }
}

// compare fills in the rates of the overview from two answers.
let seen = new Map();
function compare(snapshot) {
  const t = Date.parse(snapshot.time), now = new Map(snapshot.pools.map(p => [p.name, { t, gets: p.gets }]));
  for (const row of document.querySelectorAll("tr[data-pool]")) {
    const p = now.get(row.dataset.pool), before = seen.get(row.dataset.pool);
    if (p && before && p.t > before.t && p.gets >= before.gets) p.rate = 1000 * (p.gets - before.gets) / (p.t - before.t);
    else if (p && before) p.rate = before.rate;
    if (p && p.rate !== undefined) row.querySelector(".rate").textContent = count(p.rate);
  }
  seen = now;
}

// swap takes over the parts of a freshly served page that changed, and keeps what the reader opened.
const served = new Map();
function swap(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const part of page.querySelectorAll("[data-live]")) {
    const here = $(part.id), markup = part.innerHTML;
    if (!here || served.get(part.id) === markup || selecting(here)) continue;
    const open = new Set([...here.querySelectorAll("details[open]")].map(d => d.dataset.key));
    const focus = here.contains(document.activeElement) && document.activeElement, key = focus && focus.closest("[data-key]");
    const selector = focus && same(focus), wanted = key && key.dataset.key;
    here.replaceChildren(...document.importNode(part, true).childNodes);
    served.set(part.id, markup);
    reveal(); // what is hidden takes no focus
    for (const d of here.querySelectorAll("details")) {
      d.open = open.has(d.dataset.key);
      if (wanted && d.dataset.key === wanted) d.querySelector("summary").focus();
    }
    const next = selector && here.querySelector(selector);
    if (next) next.focus();
  }
}
// same selects, in a part that was taken over, what stands for an element of the part before.
function same(element) {
  const name = ["id", "popovertarget", "data-copy", "href"].find(name => element.hasAttribute(name));
  return name && `[${name}="${CSS.escape(element.getAttribute(name))}"]`;
}
function selecting(part) {
  const s = getSelection();
  return s && !s.isCollapsed && part.contains(s.anchorNode);
}
function reveal() { for (const b of document.querySelectorAll("[data-copy]")) b.hidden = !navigator.clipboard; }

async function ask(format) {
  const page = endpoint !== undefined && (!format || format === "history") ? "?view=calls&endpoint=" + encodeURIComponent(endpoint) : pool ? params : location.search || "?";
  const answer = await fetch(page + (format ? "&format=" + format : ""), { signal: AbortSignal.timeout(8000), cache: "no-store" });
  if (!answer.ok) throw new Error(answer.status);
  return format ? answer.json() : answer.text();
}
async function look() {
  if (!paused && !document.hidden) {
    try {
      if (tick++ % 3 === 0) swap(await ask(""));
      const answer = await ask("live");
      failures = 0;
      if (endpoint !== undefined) { takeCalls(answer); show(); } else if (pool) { take(answer); show(); } else compare(answer);
    } catch { failures++; }
    status();
  }
  setTimeout(look, 1000 * Math.min(1 + failures, 10));
}
function status() {
  $("pause").classList.toggle("lost", failures > 0);
  $("pause").setAttribute("aria-pressed", paused);
  $("state").textContent = paused ? "paused" : failures ? "no answer" : "live";
}

function pause() { paused = !paused; status(); }
function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches, root = document.documentElement;
  const next = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  try { localStorage.setItem("tarn:theme", next); } catch { }
}
async function copy(button) {
  await navigator.clipboard.writeText($(button.dataset.copy).innerText);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
document.addEventListener("click", e => { const b = e.target.closest("[data-copy]"); if (b) copy(b); });
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input,textarea")) return;
  const b = document.querySelector("[data-copy=ladder]");
  if (e.key === "p") pause();
  else if (e.key === "t") theme();
  else if (e.key === "c" && b && navigator.clipboard) copy(b);
});
$("pause").addEventListener("click", pause);
$("theme").addEventListener("click", theme);
addEventListener("resize", show);
addEventListener("pagehide", () => { try { sessionStorage.setItem(keep, JSON.stringify(history)); } catch { } });
try { const kept = localStorage.getItem("tarn:theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { }
$("live").hidden = false;
document.querySelector(".keys").hidden = false;
reveal();
if (endpoint !== undefined) { restore(); takeCalls(first); show(); } else if (pool) { restore(); take(first); show(); } else compare(first);
status();
if (charts.length) ask("history").then(past => { recall(past); show(); }, () => { });
setTimeout(look, 1000);
