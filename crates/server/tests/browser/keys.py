"""The keyboard alone: places, lists, filters, decisions; and a focus that can be seen."""

import ground
from ground import Case, each_page

# Notes each element that gets the focus, and whether that can be seen.
FOCUS = """
  window.stops = [];
  addEventListener("focusin", ({ target }) => {
    const s = getComputedStyle(target), r = target.getBoundingClientRect();
    const marked = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2;
    const there = r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth && r.width > 0 && r.height > 0;
    const what = `${target.nodeName} ${target.className} ${target.textContent.slice(0, 30)}: ${s.outlineStyle} ${s.outlineWidth} at ${r.left}, ${r.top}`;
    window.stops.push(marked && there ? "" : what);
  });
"""


class Keys(Case):
    def test_g_and_a_letter_lead_to_every_place(self):
        self.open("")
        places = self.browser.run("return [...document.querySelectorAll('nav a')].map((a) => [a.textContent, new URL(a.href).pathname])")
        letters = {"Overview": "o", "Fairness": "f", "Jobs": "j", "Errors": "e", "Queues": "q", "Schedules": "s", "Tasks": "t", "Nodes": "n", "Audit": "a", "Tokens": "k"}
        for label, path in places:
            if not ground.table().has(path):
                print(f"{label}: {path} is not there yet")
                continue
            self.open("jobs" if path != "/jobs" else "fairness")
            with self.subTest(place=label):
                self.browser.follow(lambda: self.browser.press("g", letters[label]))
                self.assertRegex(self.browser.text("h1"), f"^{label}")

    def test_j_and_k_walk_through_a_list_and_enter_opens(self):
        self.open("jobs?filter=group:acme")
        keys = "return [...document.querySelectorAll('tbody tr')].map((row) => row.dataset.key)"
        rows = self.browser.run(keys)
        at = "return document.querySelector('tr.at')?.dataset.key"
        self.browser.press("j", "j", "j", "k")
        self.assertEqual(self.browser.run(at), rows[1])
        self.browser.follow(lambda: self.browser.press("Enter"))
        self.assertIn(rows[1], self.browser.url())

    def test_a_filter_is_written_and_asked_without_the_mouse(self):
        self.open("jobs")
        self.browser.press("/")
        self.browser.follow(lambda: self.browser.press("state:stuck group:acme", "Enter"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('tbody tr').length"), 6)
        # Letters in a field are letters.
        self.browser.press("/", "g", "j")
        self.assertIn("/jobs?", self.browser.url())

    def test_a_filter_is_completed_by_what_the_server_knows(self):
        self.open("jobs")
        self.browser.press("/", "group:ac")
        self.browser.until("[...document.querySelectorAll('#suggestions [role=option]')].some((e) => e.textContent.includes('acme'))")
        self.browser.press("Down", "Enter")
        self.assertIn("group:acme", self.browser.run("return document.getElementById('filter').value"))
        self.assertIn("/jobs", self.browser.url())

    def tab_to(self, selector, most=150):
        for _ in range(most):
            self.browser.press("Tab")
            if self.browser.run("return document.activeElement.matches(arguments[0])", selector):
                return
        raise AssertionError(f"Tab does not come to {selector}")

    def test_all_jobs_of_a_filter_are_decided_about_without_the_mouse(self):
        site = ground.site()
        site.api("queues/held/pause", {}, "POST", fine=False)
        job = site.submit("noop", {}, queue="held", group="by-keys")
        self.open("jobs?filter=group:by-keys")
        self.tab_to("a[href*='do=cancel']")
        self.browser.follow(lambda: self.browser.press("Enter"))
        self.tab_to("button.danger")
        self.browser.follow(lambda: self.browser.press("Enter"))
        self.browser.until("/1 cancelled/.test(document.body.innerText)")
        self.assertEqual(site.job(job)["state"], "cancelled")

    @each_page
    def test_tab_comes_to_everything_and_the_focus_is_always_seen(self, _path, address):
        self.open(address)
        self.browser.run(FOCUS)
        self.browser.press(*["Tab"] * 60)
        stops = self.browser.run("return window.stops")
        self.assertEqual([stop for stop in stops if stop], [])
        able = "a[href], button, input:not([type=hidden]), summary"
        able = self.browser.run(f"return [...document.querySelectorAll('{able}')].filter((e) => e.checkVisibility()).length")
        self.assertGreaterEqual(len(stops), min(able, 50))

    def test_the_first_tab_skips_what_every_page_has(self):
        self.open("jobs")
        self.browser.press("Tab", "Enter", "Tab")
        self.assertTrue(self.browser.run("return document.activeElement.closest('main') !== null"))
