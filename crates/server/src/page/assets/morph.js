// What all scripts of pages begin with: times for people, and how a page that was read again is put in the place of the one that is shown.

/* Times: in the viewer's zone, exact to the microsecond on hover. */

const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    const local = day.format(at);
    time.title = `${local} (${time.dateTime})`;
    if (/UTC$/.test(time.textContent)) time.textContent = local;
  }
  for (const chart of within.querySelectorAll("svg.chart")) localAxis(chart);
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const exact = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const zoned = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });

/** The labels of a time axis, as exact as they are in UTC; and the zone beside them. */
function localAxis(chart) {
  const ticks = [...chart.querySelectorAll("text[data-at]")];
  const colons = Math.max(0, ...ticks.map((tick) => tick.textContent.split(":").length - 1));
  for (const tick of ticks) {
    const at = new Date(Number(tick.dataset.at) * 1000);
    const midnight = at.getHours() + at.getMinutes() + at.getSeconds() === 0;
    tick.textContent = (colons === 0 || midnight ? date : colons === 1 ? clock : exact).format(at);
  }
  const zone = chart.querySelector("text.zone");
  if (zone) zone.textContent = zoned.formatToParts(new Date()).find(({ type }) => type === "timeZoneName").value;
}

/* Parts that come after their page: read again with it, but one that takes long not more often than that is worth. */

const readings = new WeakMap();

function due(within, again) {
  const rested = (part) => again && part.dataset.begun === "done" && !part.hasAttribute("data-once") && Date.now() >= (readings.get(part) ?? 0);
  return [...within.querySelectorAll("[data-fragment]")].filter((part) => !part.dataset.begun || rested(part));
}

function rest(part, began) {
  part.dataset.begun = "done";
  readings.set(part, Date.now() + Math.max(4000, 4 * (Date.now() - began)));
}

/** Links and forms of a part lead where they led where it was read. */
function placed(body, from) {
  for (const [name, selector] of [["href", "a[href]"], ["action", "form[action]"], ["formaction", "[formaction]"]]) {
    for (const element of body.querySelectorAll(selector)) element.setAttribute(name, new URL(element.getAttribute(name), from).href);
  }
  return body;
}

/** Puts in what was read; what is the same, and the focus in it, stay. */
function fill(part, body) {
  const next = document.importNode(part, false);
  delete next.dataset.keep;
  next.append(...[...body.childNodes].map((node) => document.importNode(node, true)));
  const { keep } = part.dataset;
  delete part.dataset.keep;
  morph(part, next);
  if (keep !== undefined) part.dataset.keep = keep;
}

/* What differs between two trees is changed in the first. Elements are the same by their id or data-key, or by their place. */

const keyOf = (node) => (node.nodeType === 1 ? node.id || node.dataset?.key || null : null);

function morph(old, next) {
  if (old.dataset?.keep !== undefined && old.dataset.keep === next.dataset?.keep) return;
  // Before the attributes become those of the other.
  const held = old.dataset?.hold !== undefined && !old.dataset.release;
  for (const { name, value } of [...next.attributes]) {
    if (name === "open" && old.nodeName === "DETAILS") continue;
    if (name === "value" && old === document.activeElement) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const own = (name === "open" && old.nodeName === "DETAILS") || name === "aria-selected" || name === "title";
    if (!own && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  if (old.nodeName === "TEXTAREA" || old.nodeName === "SELECT") return;
  const known = new Map();
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key) known.set(key, child);
  }
  let place = old.firstChild;
  let fresh = 0;
  for (const child of [...next.childNodes]) {
    const key = keyOf(child);
    let same = key ? known.get(key) : place;
    if (!key) {
      while (same && keyOf(same)) same = same.nextSibling;
      if (same && (same.nodeName !== child.nodeName || same.nodeType !== child.nodeType)) same = null;
    }
    if (key && !same && held && known.size) {
      fresh += 1;
      continue;
    }
    if (!same) {
      const copy = document.importNode(child, true);
      old.insertBefore(copy, place);
      continue;
    }
    known.delete(key);
    if (same === place) place = place.nextSibling;
    else old.insertBefore(same, place);
    if (child.nodeType === 1) morph(same, child);
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    const stays = held && keyOf(gone) && known.has(keyOf(gone)) && fresh > 0;
    if (!stays) gone.remove();
  }
  if (old.dataset?.hold !== undefined) tellFresh(old, fresh);
}

/* A list does not jump: what is new is counted, and shown when the person asks for it. */

function tellFresh(list, fresh) {
  const note = document.getElementById("fresh");
  if (!note) return;
  delete list.dataset.release;
  note.hidden = fresh === 0;
  note.textContent = `${fresh} new: show`;
}

