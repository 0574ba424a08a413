#!/usr/bin/env python3
"""Compares the elements of pages with hostile values to those with harmless ones, in a browser whose content security policy counts, and
in one where it does not. A test of the server (src/page/hostile.rs) starts this and says on stdin where the pages are."""

import json
import sys
import time
import urllib.parse

sys.dont_write_bytecode = True

from driver import Browser, Driver  # noqa: E402

# What a page is asked with besides the name in its path; where a value must be one of a few, it is.
QUERY = ["filter", "cursor", "queue", "by", "next", "done", "count", "name", "fingerprint", "task", "group", "since", "actor", "target"]
FIXED = {"/groups/{name}/what-if": [("weight", "2")], "/decide": [("do", "cancel")], "/jobs/suggest": [("filter", "group:")]}
# What forms send, all of it to each of them. Some take it, and lead to a page that says so; others show what is wrong with it, and the form
# with what was written.
FIELDS = (
    "name task queue group key unique priority in at args reason weight concurrency rate scheme max_waiting fairness per_node on_error after schedule zone block "
    "cron every retry timeout on_exhausted next overlap catch_up expires groups queues tasks scopes filter newest theme"
).split()
# Each form is sent so often, each time with other fields as they should be: so that it comes as far as to the next one.
SENT = 24
FINE = {"priority": "5", "weight": "2", "concurrency": "3", "max_waiting": "7", "per_node": "1", "scopes": "read", "args": "null", "in": "", "at": "", "rate": "", "expires": ""}
# Rounds whose pages are opened as a person does; all others are read, and made elements of, without their scripts.
OPENED = 3
# An element tree, and what may not be in it.
TREE = """
  const tree = (doc, base) => {
    const rows = [], wrong = [];
    const walk = (e, depth) => {
      rows.push(depth + e.nodeName + " " + e.getAttributeNames().filter((n) => !/^(aria-current|aria-invalid|aria-describedby|data-begun)$/.test(n)).sort());
      for (const { name, value } of e.attributes) {
        if (/^on|^style$|^srcdoc$/.test(name)) wrong.push(`${e.nodeName} has ${name}`);
        if (/^(href|src|action|formaction|data-fragment|xlink:href)$/.test(name) && new URL(value, base).origin !== location.origin) wrong.push(`${e.nodeName} ${name} leads to ${value}`);
      }
      for (const child of e.children) walk(child, depth + 1);
    };
    walk(doc.documentElement, 0);
    return { rows, wrong };
  };
"""
COMPARE = (
    TREE
    + """
  const [all, done] = arguments;
  const harmless = new Map();
  const one = async ([url, form], round) => {
    const post = form === null ? {} : { method: "POST", body: new URLSearchParams(form) };
    const answer = await fetch(url, { headers: { "x-round": round }, ...post });
    const text = await answer.text();
    return { status: answer.status, ...tree(new DOMParser().parseFromString(text, "text/html"), answer.url) };
  };
  (async () => {
    const found = [];
    const work = async () => {
      while (all.length) {
        const { hostile, plain, round, shape } = all.pop();
        const where = hostile[0];
        if (!harmless.has(shape)) harmless.set(shape, one(plain, "p" + shape));
        const [bad, good] = [await one(hostile, "h" + round), await harmless.get(shape)];
        if (bad.status !== good.status || bad.status >= 500) found.push(`${where}: status ${bad.status}, harmless ${good.status}`);
        const at = good.rows.findIndex((row, at) => row !== bad.rows[at]);
        if (at >= 0 || good.rows.length !== bad.rows.length) found.push(`round ${round} ${where}: ${good.rows.slice(at, at + 3).join(" / ")} became ${bad.rows.slice(at, at + 3).join(" / ")}`);
        if (bad.wrong.length) found.push(`round ${round} ${where}: ${bad.wrong.slice(0, 3)}`);
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    done(found.slice(0, 20));
  })().catch((error) => done([String(error)]));
"""
)
HERE = TREE + "return tree(document, location.href)"
WAITS = "document.readyState === 'complete' && [...document.querySelectorAll('[data-fragment]')].every((e) => e.dataset.begun === 'done')"


def address(plan, path, number, hostile):
    """Where a page is, with a text of this number wherever one may stand."""

    def text(shift):
        at = (number + shift) % len(plan["hostile"])
        # Browsers take a dot or two for a way up, also when they are encoded.
        named = plan["hostile"][at] if plan["hostile"][at] not in (".", "..") else "..."
        # A filter of blanks alone is none.
        named = named if named.strip() else f"x{named}"
        return urllib.parse.quote(named if hostile else f"plain{at}", safe="").replace(".", "%2E")

    named = path.replace("{id}", text(0)).replace("{name}", text(0)).replace("{number}", "1")
    fixed = dict(FIXED.get(path, []))
    query = [f"{name}={value}" for name, value in fixed.items()]
    query += [f"{name}={text(at)}" for at, name in enumerate(QUERY) if name not in fixed]
    return f"{plan['root']}{named}?{'&'.join(query)}"


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def form(plan, number, hostile):
    """What a form sends: a text of this number in every field, but in those that are as they should be in this round."""

    def text(shift):
        at = (number * 7 + shift) % len(plan["hostile"])
        given = plan["hostile"][at]
        # A field of blanks alone is one that is not given, and a number may be what is asked for: the answer would be another one.
        given = f"x{given}" if not given.strip() or is_json(given) else given
        return given if hostile else f"plain{at}"

    fields = [(name, text(at)) for at, name in enumerate(FIELDS)]
    fine = list(FINE)[: number % (len(FINE) + 1)]
    fields = [(name, FINE[name] if name in fine else value) for name, value in fields]
    # Where it leads afterwards.
    return [*fields, ("do", "cancel"), ("back", f"jobs?filter={urllib.parse.quote(text(0), safe='')}")]


def main():
    plan = json.load(sys.stdin)
    driver = Driver()
    found, compared, sent, opened, began = [], 0, 0, 0, time.monotonic()
    try:
        browser = Browser(driver)
        browser.command("Page.addScriptToEvaluateOnNewDocument", source="window.hit = () => { window.wasHit = true; }")
        browser.policy(False)
        browser.go(plan["root"] + "/login")
        for path in plan["pages"]:
            rounds = [
                {
                    "round": number,
                    "shape": number % plan["shapes"],
                    "hostile": (address(plan, path, number, True), None),
                    "plain": (address(plan, path, number % plan["shapes"], False), None),
                }
                for number in range(plan["rounds"])
            ]
            compared += len(rounds)
            found += browser.wait_for(COMPARE, rounds)
        for path in plan["forms"]:
            # Each has a harmless one of its own: which fields are as they should be differs.
            rounds = [
                {
                    "round": number,
                    "shape": number,
                    "hostile": (address(plan, path, number, True).split("?")[0], form(plan, number, True)),
                    "plain": (address(plan, path, number, False).split("?")[0], form(plan, number, False)),
                }
                for number in range(SENT)
            ]
            sent += len(rounds)
            found += browser.wait_for(COMPARE, rounds)
        for policy in (True, False):
            browser.policy(policy)
            for path in plan["pages"]:
                for number in range(0, plan["rounds"], plan["rounds"] // OPENED):
                    trees = []
                    for kind in "ph":
                        browser.cookie("round", f"{kind}{number}", plan["root"])
                        browser.go(address(plan, path, number, kind == "h"))
                        browser.until(WAITS)
                        trees.append(browser.run(HERE))
                        opened += 1
                        if browser.run("return window.wasHit"):
                            found.append(f"{path}: a text of round {number} has run as a script")
                    if trees[0] != trees[1]:
                        pairs = [pair for pair in zip(trees[0]["rows"], trees[1]["rows"]) if pair[0] != pair[1]]
                        found.append(f"{path} opened in round {number}: {pairs[:2]} {trees[1]['wrong']}")
        browser.close()
    finally:
        driver.stop()
    print(f"{compared} pages with hostile values compared, {sent} forms sent with some, {opened} pages opened, in {time.monotonic() - began:.0f} s")
    for line in found[:30]:
        print(line)
    sys.exit(bool(found))


main()
