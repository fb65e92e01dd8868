"use strict";
// Charts: hand-written SVG, redrawn once a second from a short history. Everything interpolated into
// markup here is a number; names from the program never are.
const span = 180e3, step = 10e3, hour = 3600e3; // milliseconds: kept at a second, between points before that, and kept at all

// since says how long ago something was, in seconds or minutes.
function since(seconds) { return seconds < 180 ? seconds.toFixed(0) + " s ago" : (seconds / 60).toFixed(0) + " min ago"; }

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.abs(n) >= 1023.5 && i < units.length - 1) { n /= 1024; i++; }
  return digits(n) + " " + units[i];
}
function count(n) {
  const units = ["", "k", "M", "G", "T"];
  let i = 0;
  while (Math.abs(n) >= 999.5 && i < units.length - 1) { n /= 1000; i++; }
  return digits(n) + units[i];
}
function digits(n) { return Number.isInteger(n) || Math.abs(n) >= 99.95 ? n.toFixed(0) : n.toFixed(1); }
// percent never writes 100% for what is not all, nor 0% for what is not nothing.
function percent(v) {
  if (v <= 0 || v >= 1) return (100 * v).toFixed(0) + "%";
  if (v < 0.0005) return "<0.1%";
  return (v < 0.0995 ? (100 * v).toFixed(1) : v > 0.99 ? (Math.floor(1000 * v) / 10).toFixed(1) : (100 * v).toFixed(0)) + "%";
}
// round is the next of 1, 2 and 5 times a power of ten, for the top of an axis.
function round(v) {
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].find(n => n * unit >= v * 0.999999) * unit;
}

// Chart owns one figure: its SVG, and the line that a pointer or the arrow keys move through time.
class Chart {
  constructor(figure, draw, describe) {
    this.figure = figure; this.draw = draw; this.describe = describe; this.at = -1; this.points = [];
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("aria-hidden", "true");
    this.tip = document.createElement("div"); this.tip.className = "tip"; this.tip.hidden = true; this.tip.setAttribute("role", "status");
    figure.replaceChildren(this.svg, this.tip); figure.hidden = false;
    figure.addEventListener("pointermove", e => this.point(e.clientX - figure.getBoundingClientRect().left));
    figure.addEventListener("pointerleave", () => this.choose(-1));
    figure.addEventListener("blur", () => this.choose(-1));
    figure.addEventListener("keydown", e => this.key(e));
  }
  key(e) {
    const last = this.points.length - 1, step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (step && last >= 0) this.choose(Math.min(Math.max((this.at < 0 ? last + 1 : this.at) + step, 0), last));
    else if (e.key === "Escape") this.choose(-1);
    else return;
    e.preventDefault();
  }
  point(x) {
    let best = -1, near = 1e9;
    this.points.forEach((p, i) => { const d = Math.abs(this.x(p.t) - x); if (d < near) { near = d; best = i; } });
    this.choose(best);
  }
  choose(i) { this.chosen = i < 0 ? 0 : this.points[i].t; this.render(this.points); }
  x(t) { return this.w - (this.now - t) / this.axis * this.w; }
  render(points) {
    this.points = points; this.w = this.figure.clientWidth; this.h = this.svg.clientHeight;
    if (!this.w || !points.length) return;
    this.now = points[points.length - 1].t;
    this.axis = [30e3, 60e3, 120e3, span, 360e3, 720e3, 1800e3].find(a => this.now - points[0].t <= a) || hour; // sixths of them have labels
    this.svg.setAttribute("viewBox", `0 0 ${this.w} ${this.h}`);
    this.at = this.chosen ? points.findIndex(p => p.t >= this.chosen) : -1;
    let out = this.draw(this, points);
    const p = points[this.at];
    this.tip.hidden = !p;
    if (p) {
      const x = this.x(p.t);
      out += `<line class="cursor" x1="${x}" x2="${x}" y1="0" y2="${this.h}"/>`;
      this.tip.textContent = this.describe(p, (this.now - p.t) / 1000);
      const left = x > this.w / 2 ? x - this.tip.offsetWidth - 10 : x + 10;
      this.tip.style.left = Math.max(left, 0) + "px";
    }
    this.svg.innerHTML = out;
  }
  // parts cuts the points where nothing is known between two: after an outage or a restart.
  parts(points) {
    const parts = [];
    for (const p of points) {
      if (!parts.length || p.cut) parts.push([]);
      parts[parts.length - 1].push(p);
    }
    return parts;
  }
  area(points, low, high, y) { return this.parts(points).map(part => this.areaOf(part, low, high, y)).join(""); }
  areaOf(points, low, high, y) {
    const up = points.map(p => `${this.x(p.t).toFixed(1)} ${y(high(p)).toFixed(1)}`);
    const down = points.map(p => `${this.x(p.t).toFixed(1)} ${y(low(p)).toFixed(1)}`).reverse();
    return `M${up.join("L")}L${down.join("L")}z`;
  }
  path(points, value, y) { return this.parts(points).map(part => "M" + part.map(p => `${this.x(p.t).toFixed(1)} ${y(value(p)).toFixed(1)}`).join("L")).join(""); }
}

// drawMemory stacks what views see, what they pin unseen, and what lies idle.
function drawMemory(c, points) {
  const floor = c.h - 20, last = points[points.length - 1];
  let most = 4096; // so that the axis of an unused pool has whole numbers
  for (const p of points) most = Math.max(most, p.use + p.idle);
  if (last.peak < most * 1.5) most = Math.max(most, last.peak);
  if (last.budget && last.budget < most * 2) most = Math.max(most, last.budget);
  const step = 2 ** Math.ceil(Math.log2(most / 4)), top = Math.max(Math.ceil(most * 1.06 / step), 1) * step;
  const y = v => floor - v / top * (floor - 8);
  let out = `<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-bg" width="7" height="7"/><line class="hatch-line" x1="0" x2="0" y1="0" y2="7"/></pattern></defs>`;
  out += `<path class="a-idle" d="${c.area(points, p => p.use, p => p.use + p.idle, y)}"/>`;
  out += `<path class="a-use" d="${c.area(points, () => 0, p => p.use - p.pin, y)}"/>`;
  out += `<path class="a-pin" d="${c.area(points, p => p.use - p.pin, p => p.use, y)}"/>`;
  for (let v = 0; v <= top; v += step) out += `<line class="${v ? "grid" : "base"}" x1="0" x2="${c.w}" y1="${y(v)}" y2="${y(v)}"/>` + (v ? `<text x="0" y="${y(v) + 13}">${bytes(v)}</text>` : "");
  out += `<path class="e-top" d="${c.path(points, p => p.use + p.idle, y)}"/><path class="e-use" d="${c.path(points, p => p.use, y)}"/>`;
  const mark = (v, cls, label) => v > 0 && v <= top ? `<line class="${cls}" x1="0" x2="${c.w}" y1="${y(v)}" y2="${y(v)}"/><text text-anchor="end" x="${c.w}" y="${y(v) - 4}">${label} ${bytes(v)}</text>` : "";
  out += mark(last.peak, "crest", "peak") + mark(last.budget, "cap", "budget");
  for (let s = 0; s < c.axis / 1000; s += c.axis / 6000) {
    const x = c.w - s * 1000 / c.axis * c.w;
    out += `<text text-anchor="${s ? "middle" : "end"}" x="${x}" y="${c.h - 4}">${s ? "−" + (c.axis > span ? s / 60 + " min" : s + " s") : "now"}</text>`;
  }
  return out;
}

// drawLine draws one value from a floor to a ceiling, with a dot where it is now.
function drawLine(value, range) {
  return (c, all) => {
    // A point without a value cuts the line, too.
    const points = [];
    let cut = false;
    for (const p of all) {
      cut = cut || p.cut;
      if (value(p) === null) { cut = points.length > 0; continue; }
      points.push(cut ? { ...p, cut: true } : p);
      cut = false;
    }
    if (!points.length) return "";
    const [low, high, label] = range(points.map(value));
    const y = v => c.h - 4 - (v - low) / (high - low) * (c.h - 12), last = points[points.length - 1];
    return `<line class="base" x1="0" x2="${c.w}" y1="${c.h - 3}" y2="${c.h - 3}"/><line class="grid" x1="0" x2="${c.w}" y1="8" y2="8"/><text x="0" y="20">${label(high)}</text><text x="0" y="${c.h - 8}">${label(low)}</text>` +
      `<path class="s-area" d="${c.area(points, () => low, value, y)}"/><path class="s-line" d="${c.path(points, value, y)}"/><circle class="dot" cx="${c.x(last.t)}" cy="${y(value(last))}" r="3.5"/>`;
  };
}

// spark is a small line without axes, for a table cell.
function spark(values) {
  const most = Math.max(...values, 1e-9), n = Math.max(values.length - 1, 1);
  const d = values.map((v, i) => `${(140 - (n - i) * 140 / 59).toFixed(1)} ${(22 - v / most * 19).toFixed(1)}`);
  return `<svg viewBox="0 0 140 24" preserveAspectRatio="none" aria-hidden="true"><path class="s-line" vector-effect="non-scaling-stroke" d="M${d.join("L")}"/></svg>`;
}
