"""Every page that the server lists: in both themes, on a phone, with and without scripts, for people with a disability."""

import os
import re
import urllib.error
import urllib.request

import ground
from ground import Case, each_page

# How far pages may move while they are read again: what the web's own measure calls good is 0.1.
SHIFT = 0.01
# How much moved since the page began, but for what a person did in the half second before.
SHIFTED = """
  const done = arguments[arguments.length - 1];
  let sum = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => setTimeout(() => done(sum), 50));
"""
# What reaches beyond the window: such a page must be moved sideways to be read.
BEYOND = """
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > width + 1
    && !e.closest(".table, pre, .log, figure")).map((e) => `${e.nodeName} ${e.className} ${e.textContent.slice(0, 40)}`).slice(0, 8).concat("wider than " + width);
"""
AXE = """
  const done = arguments[arguments.length - 1];
  axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done(violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).slice(0, 3).join(" | ")}`)), (error) => done([String(error)]));
"""
PAPER = "getComputedStyle(document.body).backgroundColor"


def name_of(path):
    return re.sub(r"[^a-z-]+", "-", path.lower()).strip("-") or "overview"


class Pages(Case):
    def picture(self, path, kind):
        folder = os.path.join(ground.artefacts, kind)
        os.makedirs(folder, exist_ok=True)
        self.browser.picture(os.path.join(folder, f"{name_of(path)}.png"))

    def whole(self):
        """Waits for the parts that come after the page."""
        self.browser.until("document.readyState === 'complete'")
        self.browser.until("[...document.querySelectorAll('[data-fragment]')].every((e) => e.dataset.begun === 'done')")

    @each_page
    def test_every_page_is_shown_without_a_problem_and_stands_still(self, _path, address):
        self.browser.problems()
        self.open(address)
        self.whole()
        self.assertEqual(self.browser.problems(), [])
        self.assertTrue(self.browser.text("h1"))
        self.assertIn("Turnwise", self.browser.run("return document.title"))
        self.assertLessEqual(self.browser.wait_for(SHIFTED), SHIFT)
        ids = "[...document.querySelectorAll('[id]')].map((e) => e.id)"
        twice = self.browser.run(f"const ids = {ids}; return ids.filter((id, at) => ids.indexOf(id) !== at)")
        self.assertEqual(twice, [])

    def test_every_page_is_there_in_both_themes_of_the_system_and_of_a_persons_choice(self):
        papers = {}
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            for path, address in ground.table().shown():
                with self.subTest(page=path, scheme=scheme):
                    self.open(address)
                    self.whole()
                    self.picture(path, scheme)
                    papers.setdefault(scheme, self.browser.run(f"return {PAPER}"))
                    self.assertEqual(self.browser.run(f"return {PAPER}"), papers[scheme])
        self.assertNotEqual(papers["light"], papers["dark"])
        self.open("")
        for theme, paper in (("light", "light"), ("dark", "dark"), ("system", "dark")):
            self.browser.submit(f"button[name=theme][value={theme}]")
            self.assertEqual(self.browser.run(f"return {PAPER}"), papers[paper], theme)
            pressed = "return document.querySelector('button[name=theme][aria-pressed=true]').value"
            self.assertEqual(self.browser.run(pressed), theme)
        self.browser.prefer("light")
        self.open("jobs")
        self.assertEqual(self.browser.run(f"return {PAPER}"), papers["light"])

    @each_page
    def test_on_a_phone_no_page_must_be_moved_sideways(self, path, address):
        self.browser.size(320, 640)
        self.open(address)
        self.whole()
        self.picture(path, "phone")
        self.assertEqual(self.browser.run(BEYOND), [])

    @each_page
    def test_axe_finds_nothing_serious_in_either_theme(self, _path, address):
        with open(ground.axe, encoding="utf-8") as file:
            axe = file.read()
        self.open(address)
        self.whole()
        self.browser.run(axe)
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            self.assertEqual(self.browser.wait_for(AXE), [], scheme)

    def test_axe_would_find_something(self):
        with open(ground.axe, encoding="utf-8") as file:
            axe = file.read()
        self.open("")
        self.browser.run("document.querySelector('main').append(document.createElement('img'))")
        self.browser.run(axe)
        self.assertRegex("".join(self.browser.wait_for(AXE)), "^image-alt: ")

    @each_page
    def test_without_scripts_every_page_is_read(self, _path, address):
        self.browser.scripts(False)
        self.open(address)
        self.assertTrue(self.browser.text("h1"))
        self.assertRegex(self.browser.text("#made"), r"UTC$")
        # Nothing is offered that needs one.
        idle = "return [...document.querySelectorAll('main button[type=button]')].filter((b) => b.offsetParent).length"
        self.assertEqual(self.browser.run(idle), 0)

    def test_motion_stops_where_a_person_wants_none(self):
        moves = "return document.getAnimations().length"
        self.open("jobs/" + ground.jobs()["running"])
        self.assertGreater(self.browser.run(moves), 0, "the sign of a running job moves; otherwise this proves nothing")
        self.browser.prefer("light", "reduce")
        for path, address in ground.table().shown():
            with self.subTest(page=path):
                self.open(address)
                self.assertEqual(self.browser.run(moves), 0)
        self.open("jobs/" + ground.jobs()["running"])
        self.assertEqual(self.browser.run(moves), 0)

    def test_every_link_of_every_page_leads_somewhere(self):
        wrong, seen = [], set()
        for path, address in ground.table().shown():
            self.open(address)
            links = self.browser.run("return [...document.querySelectorAll('a[href]')].map((a) => new URL(a.getAttribute('href'), location).href)")
            for link in {link.split("#")[0] for link in links} - seen:
                seen.add(link)
                self.assertTrue(link.startswith(ground.site().root), f"{path} leads away: {link}")
                place = link[len(ground.site().root) - 1 :].split("?")[0]
                if any(place == missing or place.startswith(f"{missing}/") for missing in self.missing()):
                    continue
                try:
                    urllib.request.urlopen(link, timeout=30).close()
                except urllib.error.HTTPError as error:
                    wrong.append(f"{error.code} {link} from {path}")
        self.assertEqual(wrong, [])

    def missing(self):
        """Places that pages lead to before they are there."""
        return [place for place in ("/errors", "/queues", "/schedules", "/tasks", "/nodes", "/audit", "/tokens") if not ground.table().has(place)]
