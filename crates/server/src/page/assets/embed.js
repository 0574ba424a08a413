// A tenant's view inside a page of another origin. The page around it puts a ticket into the address's fragment; this script redeems it for a
// bearer, and reads pages with that. The bearer is in memory alone: there is no cookie, no storage, and no message to the page around.

const root = document.body.dataset.root;
const origins = document.body.dataset.origins.split(" ");
const at = (id) => document.getElementById(id);
const page = at("page");
const live = at("live");
const home = new URL(`${root}mine`, location.href).href;
const jobs = new URL(`${root}jobs`, location.href).href;

let bearer = null;
/** What is shown, without what a form has just done. */
let shown = home;

/* The ticket: taken out of the address at once, where a person may copy it from. */

function takeTicket() {
  const ticket = location.hash.slice(1);
  if (ticket) history.replaceState(null, "", location.pathname + location.search);
  return ticket;
}

async function redeem(ticket) {
  const answer = await fetch(`${root}api/v1/tickets/redeem`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ticket, origins }),
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.detail ?? String(answer.status));
  bearer = said.bearer;
}

async function open(ticket) {
  try {
    await redeem(ticket);
    say("wrong", "");
    await refresh();
    listen();
  } catch (error) {
    // One that is open goes on: its time is not over because another ticket was none.
    if (!bearer) end(`This view could not be opened: ${error.message}`);
  }
}

addEventListener("hashchange", () => {
  const ticket = takeTicket();
  if (ticket) open(ticket);
});

/* Pages, read with the bearer. The browser makes a document of the answer; none of its scripts run. */

class Over extends Error {}

function ask(method, url, form, again = false) {
  const known = bearer;
  return new Promise((resolve, reject) => {
    if (!known) return reject(new Over());
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.responseType = "document";
    request.setRequestHeader("authorization", `Bearer ${known}`);
    if (again) request.setRequestHeader("x-turnwise-refresh", "1");
    if (form !== undefined) request.setRequestHeader("content-type", "application/x-www-form-urlencoded");
    request.timeout = 30000;
    request.onload = () => {
      if (request.status === 401) reject(new Over());
      else if (request.status >= 500 || !request.response?.getElementById("page")) reject(new Error(String(request.status)));
      else resolve(request);
    };
    request.onerror = request.ontimeout = () => reject(new Error("no answer"));
    request.send(form ?? null);
  });
}

/** Links and forms of a page lead where they led there; those that leave a tenant's jobs lead nowhere. */
function settle(part, from) {
  const to = (text) => new URL(text ?? "", from).href;
  const own = (url) => {
    const [path] = url.split("?");
    return path === home || path === jobs || path.startsWith(`${jobs}/`);
  };
  for (const link of part.querySelectorAll("a")) {
    const url = to(link.getAttribute("href"));
    if (link.hasAttribute("href") && own(url)) link.setAttribute("href", url);
    else link.removeAttribute("href");
  }
  for (const form of part.querySelectorAll("form")) form.setAttribute("action", to(form.getAttribute("action")));
  for (const later of part.querySelectorAll("[data-fragment]")) later.dataset.fragment = to(later.dataset.fragment);
  localTimes(part);
}

function say(id, text) {
  at(id).textContent = text;
  at(id).hidden = text === "";
}

function show({ response, responseURL }) {
  const next = response.getElementById("page");
  settle(next, responseURL);
  const focused = document.activeElement;
  morph(page, next);
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  const url = new URL(responseURL);
  const did = url.searchParams.has("done");
  for (const name of ["done", "count"]) url.searchParams.delete(name);
  shown = url.href;
  const title = response.querySelector("h1")?.textContent ?? "";
  if (at("title").textContent !== title) at("title").textContent = title;
  at("back").hidden = shown === home;
  if (did) say("done", response.querySelector(".done")?.textContent ?? "");
  const [when, made] = [response.getElementById("made"), at("made")];
  if (when) {
    made.dateTime = when.dateTime;
    made.textContent = when.textContent;
    localTimes(made.parentElement);
  }
  since = Date.now();
  away = false;
  tellAge();
  fragments(true);
}

/** Parts that take a while come after the page, and again with it. */
async function fragments(again) {
  for (const part of due(page, again)) {
    const first = !part.dataset.begun;
    const began = Date.now();
    part.dataset.begun = first ? "yes" : "again";
    try {
      const { response, responseURL } = await ask("GET", part.dataset.fragment);
      const body = response.getElementById("fragment") ?? response.getElementById("page");
      settle(body, responseURL);
      fill(part, body);
    } catch (error) {
      if (error instanceof Over) return end(OVER);
      if (first) part.textContent = "This could not be read.";
    }
    rest(part, began);
  }
}

async function go(method, url, form, again) {
  try {
    const answer = await ask(method, url, form, again);
    // Others' pages were read first, and this one is to come again.
    if (answer.getResponseHeader("retry-after")) settleLater();
    if (again && answer.status === 429) return;
    show(answer);
  } catch (error) {
    if (error instanceof Over) end(OVER);
    else lost();
  }
}

let reading = null;

async function refresh() {
  reading ??= go("GET", shown, undefined, true);
  await reading;
  reading = null;
}

at("back").addEventListener("click", () => {
  say("done", "");
  go("GET", home).then(() => at("main").focus());
});

document.addEventListener("click", (event) => {
  if (event.target.id === "fresh") {
    for (const list of page.querySelectorAll("[data-hold]")) list.dataset.release = "yes";
    refresh();
    return;
  }
  const link = event.target.closest("a[href]");
  if (!link) return;
  event.preventDefault();
  say("done", "");
  go("GET", link.getAttribute("href")).then(() => at("main").focus());
});

document.addEventListener("submit", (event) => {
  event.preventDefault();
  const [action, asks] = [event.target.getAttribute("action"), event.target.getAttribute("method") !== "post"];
  const text = new URLSearchParams(new FormData(event.target, event.submitter)).toString();
  if (asks) go("GET", `${action.split("?")[0]}?${text}`);
  else go("POST", action, text);
});

/* How old what is shown is. */

const OVER = "The time of this view is over. The page around it can open it again.";
let since = Date.now();
let away = false;

function lost() {
  away = true;
  tellAge();
}

function tellAge() {
  if (!bearer) return;
  const text = away ? `no contact, ${Math.round((Date.now() - since) / 1000)} s old` : "live";
  live.dataset.is = away ? "lost" : "live";
  if (live.textContent !== text) live.textContent = text;
}

/** Nothing is shown any more to a person who may not see it any more. */
function end(why) {
  bearer = null;
  page.replaceChildren();
  say("done", "");
  say("wrong", why);
  live.textContent = "ended";
}

/* Events. A page may be one of very many that the token's bearers have open: without a stream it looks again every ten seconds. */

let wanted = false;
let last = 0;
let settles = 0;

function happened() {
  wanted = true;
  setTimeout(() => {
    if (!wanted || document.hidden || !bearer) return;
    wanted = false;
    last = Date.now();
    refresh();
    // What came may have been read for another page before this happened: once more, when nothing follows.
    settleLater();
  }, Math.max(0, last + 2000 - Date.now()));
}

function settleLater() {
  clearTimeout(settles);
  settles = setTimeout(() => !document.hidden && bearer && refresh(), 4500);
}

const until = (target, name) => new Promise((come) => target.addEventListener(name, come, { once: true }));
const pause = (ms) => new Promise((over) => setTimeout(over, ms));

async function hear(known) {
  const stop = new AbortController();
  const hide = () => document.hidden && stop.abort();
  document.addEventListener("visibilitychange", hide);
  try {
    const headers = { authorization: `Bearer ${known}` };
    const options = { headers, credentials: "omit", cache: "no-store", redirect: "error", signal: stop.signal };
    const answer = await fetch(`${root}api/v1/events?pace=calm`, options);
    if (!answer.ok) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      if (lines.some((line) => line.startsWith("event: "))) happened();
      if (bearer !== known) return stop.abort();
    }
  } catch {
    // It broke off, or the page is hidden.
  } finally {
    document.removeEventListener("visibilitychange", hide);
  }
}

let listening = false;

async function listen() {
  if (listening) return;
  listening = true;
  while (bearer) {
    while (document.hidden) await until(document, "visibilitychange");
    await hear(bearer);
    // What ended the stream may have ended the view, too: that is shown at once.
    if (!document.hidden && bearer) await refresh();
    if (!document.hidden && bearer) await pause(10000);
  }
  listening = false;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && wanted) happened();
});

setInterval(tellAge, 1000);
const ticket = takeTicket();
if (ticket) open(ticket);
else end("This view is opened by a page that has a ticket for it.");
