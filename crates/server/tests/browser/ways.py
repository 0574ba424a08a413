"""Hostile texts by every way that a value comes in: requests, programs that nodes run, settings, names, reasons, and addresses. What pages make
of every field of an answer, hostile.py compares; here the values are real."""

import http.client
import json
import urllib.parse

import ground
import scene
from driver import Browser, until
from ground import Case

TEXTS = [
    "<script>hit()</script>",
    "\"><img src=x onerror=hit()>",
    "'><svg onload=hit()>",
    "javascript:hit()",
    "</title></textarea></script><iframe srcdoc='<script>parent.hit()</script>'></iframe>",
    "\u202eevil\u2066 x onfocus=hit() autofocus",
    "{{7*7}}<style>*{display:none}</style>",
]
# A program that writes all of this where the node takes it from: its error, its log, its progress and its result.
PROGRAM = """
cat > text
printf '%s\\n' "$(cat text)" >&2
python3 - "$TURNWISE_PROGRESS" <<'PY'
import json, sys
text = json.load(open("text"))["text"]
open(sys.argv[1], "a").write(json.dumps({"done": 1, "total": 3, "text": text}) + "\\n")
print(json.dumps({"said": text, text: 1}))
sys.exit(1 if len(text) % 2 else 0)
PY
"""
SETTINGS = f"""
[tasks.say]
command = ["sh", "-c", {json.dumps(PROGRAM.replace("{", "{{").replace("}", "}}"))}]
retry = "exponential:1h,3"
"""
# What no page has of itself, or what would have run.
FOREIGN = """
  const own = "script[type=module][src*='assets/turnwise.js']";
  const foreign = [...document.querySelectorAll("script, iframe, img, object, embed, base, style, [onerror], [onload], [onfocus], [srcdoc], svg[onload]")];
  const links = [...document.querySelectorAll("[href], [action], [src]")].filter((e) => new URL(e.getAttribute("href") ?? e.getAttribute("action") ?? e.getAttribute("src"), location).origin !== location.origin);
  return [...foreign.filter((e) => !e.matches(own)), ...links].map((e) => e.outerHTML.slice(0, 200)).concat(window.wasHit ? ["a text has run"] : []);
"""


class Ways(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = scene.folder()
        cls.site = site = scene.Site(ground.turnwise, cls.folder.name, settings=SETTINGS, options=["--name", "<b>node</b>"])
        site.api("queues/held/pause", {"reason": TEXTS[1]}, "POST")
        cls.jobs = []
        for text in TEXTS:
            names = {"queue": text, "group": text, "key": text, "unique": text}
            cls.jobs.append(site.submit("say", {"text": text, text: text}, **names))
            cls.jobs.append(site.submit(text, {text: [text]}, **{**names, "queue": "held", "unique": f"{text}2"}))
            quoted = urllib.parse.quote(text, safe="")
            site.api(f"queues/{quoted}", {"concurrency": "3"}, "PATCH")
            site.api(f"groups/{quoted}", {"weight": 2}, "PATCH")
            site.api(f"groups/{quoted}/pause", {"reason": text}, "POST")
            site.api(f"groups/{quoted}/resume", method="POST")
            site.api(f"tasks/{quoted}", {"concurrency": 2}, "PATCH")
            site.api(f"schedules/{quoted}", {"task": text, "group": text, "queue": text, "every": "5h", "args": {text: text}}, "PUT")
            site.api(f"schedules/{quoted}/pause", {"reason": text}, "POST")
        for job in cls.jobs[::2]:
            until(lambda: site.job(job)["state"] in ("stuck", "success"), lambda: f"{site.job(job)}")
        until(lambda: site.api("errors")["errors"], "errors are written now and then")

    @classmethod
    def tearDownClass(cls):
        cls.site.stop()
        cls.folder.cleanup()

    def addresses(self):
        """Every page, with every text in each place of its address that takes any."""
        for text in TEXTS:
            quoted = urllib.parse.quote(text, safe="")
            for row in ground.rows:
                if row["verb"] != "GET" or row["path"].startswith("/assets/") or "{number}" in row["path"]:
                    continue
                names = [quoted]
                if row["path"].startswith("/jobs/"):
                    names = [job for job in self.jobs if self.jobs.index(job) // 2 == TEXTS.index(text)]
                for name in names:
                    path = row["path"].replace("{id}", name).replace("{name}", name)
                    query = f"weight=2&do=cancel&name={quoted}&queue={quoted}&next={quoted}&done={quoted}&by={quoted}&task={quoted}&fingerprint={quoted}"
                    yield f"{path[1:]}?{query}&filter={quoted}"
            yield "jobs"
            yield f"jobs?filter={urllib.parse.quote(f'group:{json.dumps(text, ensure_ascii=False)}', safe='')}"

    def test_no_text_becomes_an_element_or_runs_with_the_policy_or_without(self):
        for policy in (False, True):
            browser = Browser(ground.driver())
            self.addCleanup(browser.close)
            browser.command("Page.addScriptToEvaluateOnNewDocument", source="window.hit = () => { window.wasHit = true; }")
            browser.policy(policy)
            addresses = list(dict.fromkeys(self.addresses()))
            # Without the policy everything would run; with it a few show that it does no harm to the page itself.
            for address in addresses if not policy else addresses[::7]:
                with self.subTest(address=address, policy=policy):
                    browser.go(self.site.root + address)
                    self.assertEqual(browser.run(FOREIGN), [])

    def test_an_element_of_a_value_would_be_found(self):
        self.browser.policy(False)
        self.open("jobs", self.site)
        self.browser.run("document.querySelector('main').insertAdjacentHTML('beforeend', arguments[0])", TEXTS[1])
        self.assertEqual(len(self.browser.run(FOREIGN)), 1)
        self.browser.policy(True)

    def test_a_line_break_in_a_name_or_an_id_begins_no_event(self):
        address = urllib.parse.urlsplit(self.site.root)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("GET", "/api/v1/events?type=submitted,ended", headers={"Last-Event-ID": "x\u00a0y"})
        answer = connection.getresponse()
        self.site.submit("noop", {"text": "a\rdata: {}\r\revent: reset\r"}, group="\u202ex", queue="held", unique="a\u2028data: 1")
        seen = ""
        while "submitted" not in seen:
            seen += answer.readline().decode()
        self.assertNotIn("\r", seen.replace("\r\n", ""))
        for line in seen.splitlines():
            self.assertRegex(line, r"^(id: |event: |data: \{|retry: |:|$)")
        connection.close()
