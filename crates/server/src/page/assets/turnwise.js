// What makes pages live. Without it they are complete: they are just not read again by themselves.
//
// All tabs of a browser share one stream of events: the tab that holds a lock reads it and passes on that something has happened. A tab
// that is seen then reads its own page again and changes what differs.

const root = document.body.dataset.root;
const page = document.getElementById("page");
const made = document.getElementById("made");
const live = document.getElementById("live");

document.addEventListener("click", (event) => {
  if (event.target.id !== "fresh") return;
  for (const list of document.querySelectorAll("[data-hold]")) list.dataset.release = "yes";
  refresh();
});

/* Reading the page again. The browser makes a document of the answer; none of its scripts run. */

let reading = null;

/** `again`: of a page that was there before; the server bounds how much is read for all that are watched. */
function read(url, again = false) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.responseType = "document";
    if (again) request.setRequestHeader("x-turnwise-refresh", "1");
    request.timeout = 30000;
    request.onload = () => (request.response && request.status < 500 ? resolve(request) : reject(new Error(String(request.status))));
    request.onerror = request.ontimeout = () => reject(new Error("no answer"));
    request.send();
  });
}

async function refresh() {
  if (reading) return reading;
  reading = (async () => {
    try {
      const request = await read(location.href, true);
      const { response, status, responseURL } = request;
      if (responseURL && new URL(responseURL).pathname !== location.pathname) return location.reload();
      // Others' pages were read first, and this one is to come again.
      if (request.getResponseHeader("retry-after")) settle();
      if (status === 429) return;
      // The server is well: what was here is not, or this person may not see it any more.
      if (status >= 400) return found(response.querySelector("h1")?.textContent ?? String(status));
      const [next, when] = [response.getElementById("page"), response.getElementById("made")];
      if (!next || !when) return lost();
      localTimes(next);
      const focused = document.activeElement;
      morph(page, next);
      for (const id of ["title", "beside"]) {
        const [old, fresh] = [document.getElementById(id), response.getElementById(id)];
        if (old && fresh) morph(old, fresh);
      }
      document.title = response.title;
      if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
      made.dateTime = when.dateTime;
      made.textContent = when.textContent;
      localTimes(made.parentElement);
      found();
      fragments(true);
    } catch {
      lost();
    }
  })();
  await reading;
  reading = null;
}

/* How old what is shown is. */

let since = Date.now();
let away = false;
/** What the server says instead of this page. */
let instead = null;

function lost() {
  away = true;
  tellAge();
}

function found(other = null) {
  if (!other) since = Date.now();
  away = false;
  instead = other;
  tellAge();
}

function tellAge() {
  const age = Math.round((Date.now() - since) / 1000);
  live.hidden = false;
  live.dataset.is = away ? "lost" : instead ? "gone" : paused() ? "paused" : "live";
  const text = away ? `no contact, ${age} s old` : instead ? `as it was ${age} s ago; now: ${instead}` : paused() ? "paused" : "live";
  const label = live.firstChild?.nodeType === 3 ? live.firstChild : live.insertBefore(document.createTextNode(""), live.firstChild);
  if (label.nodeValue !== text + " ") label.nodeValue = text + " ";
  if (!live.querySelector("button")) {
    const button = document.createElement("button");
    button.type = "button";
    button.addEventListener("click", () => {
      sessionStorage.setItem("turnwise-paused", paused() ? "" : "yes");
      tellAge();
      if (!paused()) refresh();
    });
    live.append(button);
  }
  live.querySelector("button").textContent = paused() ? "Go on" : "Pause";
}

const paused = () => sessionStorage.getItem("turnwise-paused") === "yes";

/* Events: one stream for all tabs. */

/** Of this server: another one may be under another path of the same origin. */
const ours = `turnwise ${new URL(root, location.href).href}`;
const channel = new BroadcastChannel(ours);
let wanted = false;
let last = 0;
let settles = 0;

/** Something has happened. A page is read again at most every two seconds, and not while it is not seen. */
function happened() {
  wanted = true;
  const wait = Math.max(0, last + 2000 - Date.now());
  setTimeout(() => {
    if (!wanted || document.hidden || paused()) return;
    wanted = false;
    last = Date.now();
    refresh();
    // What came may have been read for another tab before this happened: once more, when nothing follows.
    settle();
  }, wait);
}

function settle() {
  clearTimeout(settles);
  settles = setTimeout(() => !document.hidden && !paused() && refresh(), 4500);
}

channel.addEventListener("message", ({ data }) => {
  if (data === "happened") happened();
  else if (data === "lost") lost();
  else if (data === "found" && away) refresh();
});

function tell(text) {
  channel.postMessage(text);
  if (text === "happened") happened();
  else if (text === "lost") lost();
  else if (away) refresh();
}

/** Reads events until this tab is hidden or closed; then another tab goes on. */
function listen() {
  return new Promise((resolve) => {
    const events = new EventSource(`${root}api/v1/events?pace=calm`);
    const kinds = ["submitted", "started", "progress", "ended", "node", "dispatcher", "queue", "reset"];
    for (const kind of kinds) events.addEventListener(kind, () => tell("happened"));
    events.onopen = () => tell("found");
    events.onerror = () => tell("lost");
    const end = () => {
      if (!document.hidden) return;
      events.close();
      document.removeEventListener("visibilitychange", end);
      resolve();
    };
    document.addEventListener("visibilitychange", end);
    addEventListener("pagehide", () => events.close());
  });
}

async function lead() {
  for (;;) {
    while (document.hidden) await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
    if (navigator.locks) await navigator.locks.request(ours, listen);
    else await listen();
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && wanted) happened();
});

/* Parts that take a while come after the page, and again when the page is read again. */

async function body(url) {
  const { response, responseURL } = await read(url);
  const found = placed(response.getElementById("fragment") ?? response.getElementById("page"), responseURL);
  localTimes(found);
  return found;
}

async function fragments(again) {
  for (const part of due(document, again)) {
    const first = !part.dataset.begun;
    const began = Date.now();
    part.dataset.begun = first ? "yes" : "again";
    try {
      fill(part, await body(part.dataset.fragment));
    } catch {
      // What was read before is still there; how old the page is, the page says.
      if (first) part.textContent = "This could not be read; load the page again.";
    }
    rest(part, began);
  }
}

/* What if: the answer comes into this page, beside what was asked about. Without a script it is a page of its own. */

const answer = document.getElementById("what-if");
let asked = 0;

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  const method = submitter?.getAttribute("formmethod") ?? form.method;
  if (!answer || form.dataset.whatIf === undefined || method !== "get") return;
  event.preventDefault();
  const action = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  suppose(`${action}?${new URLSearchParams(new FormData(form))}`, submitter);
});

async function suppose(url, from) {
  const mine = (asked += 1);
  const [text, bar, leave] = ["p", "progress", "button"].map((name) => document.createElement(name));
  text.textContent = "Looking ahead at all jobs that wait…";
  bar.setAttribute("aria-label", text.textContent);
  Object.assign(leave, { type: "button", textContent: "Leave it" });
  leave.dataset.leave = "";
  answer.replaceChildren(text, bar, leave);
  answer.hidden = false;
  answer.scrollIntoView({ block: "nearest" });
  answer.asker = from;
  let found;
  try {
    found = await body(url);
  } catch {
    found = document.createElement("div");
    found.textContent = "There was no answer; ask again.";
  }
  // A newer question, or none any more.
  if (mine !== asked) return;
  answer.replaceChildren(...[...found.childNodes].map((node) => document.importNode(node, true)));
  answer.scrollIntoView({ block: "nearest" });
  answer.querySelector("h2")?.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-what-if]");
  if (!answer || !link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  suppose(link.href, link);
});

document.addEventListener("click", (event) => {
  if (!answer || !event.target.closest("#what-if [data-leave]")) return;
  event.preventDefault();
  asked += 1;
  answer.hidden = true;
  answer.asker?.focus();
});

/* What opens above others is closed by Escape, or by a click beside it. */

const opened = () => [...document.querySelectorAll(".recipe[open], td .errand[open]")];

document.addEventListener("click", ({ target }) => {
  for (const one of opened()) if (!one.contains(target)) one.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const last = opened().findLast((one) => one.contains(document.activeElement)) ?? opened().at(-1);
  if (!last) return;
  last.open = false;
  last.querySelector("summary").focus();
});

/* What may be written next in a filter: a combobox with a list, of what the server knows. */

function suggesting(form) {
  const input = form.querySelector("input[list]");
  const list = document.createElement("ul");
  Object.assign(list, { id: "suggestions", className: "suggestions", role: "listbox", hidden: true });
  list.setAttribute("aria-label", "Suggestions");
  form.append(list);
  // The browser's own list would stand beside it.
  input.removeAttribute("list");
  const set = (name, value) => input.setAttribute(name, value);
  Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" }).forEach(([name, value]) => set(name, value));
  let at = -1;
  let asked = 0;
  let wait = null;

  const choices = () => [...list.children];
  const close = () => {
    list.hidden = true;
    at = -1;
    set("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = (to) => {
    const all = choices();
    at = (to + all.length) % all.length;
    all.forEach((choice, number) => choice.setAttribute("aria-selected", String(number === at)));
    set("aria-activedescendant", all[at].id);
    all[at].scrollIntoView({ block: "nearest" });
  };
  const take = (choice) => {
    input.value = choice.dataset.filter;
    input.setSelectionRange(Number(choice.dataset.place), Number(choice.dataset.place));
    close();
    ask();
  };
  async function ask() {
    const mine = (asked += 1);
    try {
      const { response } = await read(`${form.dataset.suggest}?filter=${encodeURIComponent(input.value)}&at=${input.selectionStart}`);
      // An older answer, or the person has gone on to something else.
      if (mine !== asked || document.activeElement !== input) return;
      const found = [...(response.getElementById("fragment")?.children ?? [])];
      list.replaceChildren(
        ...found.map((item, number) => {
          const choice = document.createElement("li");
          Object.assign(choice, { id: `suggestion-${number}`, role: "option", textContent: item.textContent });
          choice.setAttribute("aria-selected", "false");
          Object.assign(choice.dataset, { filter: item.dataset.filter, place: item.dataset.place });
          return choice;
        }),
      );
      at = -1;
      input.removeAttribute("aria-activedescendant");
      list.hidden = found.length === 0;
      set("aria-expanded", String(!list.hidden));
    } catch {
      close();
    }
  }
  const later = () => {
    clearTimeout(wait);
    wait = setTimeout(ask, 120);
  };

  input.addEventListener("input", later);
  input.addEventListener("click", later);
  input.addEventListener("blur", () => {
    asked += 1;
    clearTimeout(wait);
    close();
  });
  list.addEventListener("pointerdown", (event) => {
    // The input keeps the focus.
    event.preventDefault();
    const choice = event.target.closest("li");
    if (choice) take(choice);
  });
  input.addEventListener("keydown", (event) => {
    const open = !list.hidden;
    if (event.key === "ArrowDown" && !open) ask();
    else if (event.key === "ArrowDown") mark(at + 1);
    else if (event.key === "ArrowUp" && open) mark(at < 0 ? -1 : at - 1);
    else if (event.key === "Escape" && open) close();
    else if ((event.key === "Enter" || event.key === "Tab") && open && at >= 0) take(choices()[at]);
    else return;
    event.preventDefault();
  });
}

document.querySelectorAll("form[data-suggest]").forEach(suggesting);

/* The keyboard. */

function showKeys() {
  const keys = document.querySelector("details.keys");
  if (!keys) return;
  keys.open = true;
  keys.querySelector("summary").focus();
  keys.scrollIntoView({ block: "nearest" });
}

const typing = (element) => /^(INPUT|TEXTAREA|SELECT)$/.test(element?.nodeName ?? "") || element?.isContentEditable;
let began = "";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const rows = [...document.querySelectorAll("tbody tr[data-key]")];
  const at = rows.findIndex((row) => row.classList.contains("at"));
  const go = (to) => {
    const row = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    rows[at]?.classList.remove("at");
    row?.classList.add("at");
    row?.querySelector("a")?.focus();
    row?.scrollIntoView({ block: "nearest" });
  };
  const places = { o: "", f: "fairness", j: "jobs", e: "errors", q: "queues", s: "schedules", t: "tasks", n: "nodes", a: "audit", k: "tokens" };
  if (began === "g" && event.key in places) {
    began = "";
    location.href = root + places[event.key];
    return;
  }
  began = event.key === "g" ? "g" : "";
  if (event.key === "j" && rows.length) go(at + 1);
  else if (event.key === "k" && rows.length) go(at - 1);
  else if (event.key === "/") document.querySelector("input[type=search]")?.focus();
  else if (event.key === "?") showKeys();
  else if (/^[a-z]$/.test(event.key) && document.querySelector(`[data-press=${event.key}]`)) document.querySelector(`[data-press=${event.key}]`).focus();
  else return;
  event.preventDefault();
});

/* A page that could not be made tries again. */

const retry = document.querySelector("[data-retry]");
if (retry) setTimeout(() => location.reload(), Number(retry.dataset.retry) * 1000);

localTimes(document);
fragments();
// A page that stands still is the answer to a form, or says what went wrong: at its address there is another one, or none.
if (page && document.querySelector("nav") && !document.querySelector("[data-still]")) {
  tellAge();
  setInterval(tellAge, 1000);
  setInterval(() => !document.hidden && !paused() && Date.now() - last > 15000 && happened(), 5000);
  lead();
}
