"""An operator's five errands on a database with trouble: by clicks alone, by keys alone, and by commands. How many there are and how long they
take is printed."""

import os
import time

import ground
import scene
from driver import Browser, until
from ground import Case

SETTINGS = """
[tasks.extract]
command = ["sh", "-c", "test -e fixed && exit; echo 'the font Frutiger is missing' >&2; exit 65"]
"""
GROUP_WAITS = "document.body.innerText.includes('Why it is waiting') && !document.body.innerText.includes('Looking…')"


class Hand:
    """A person at the browser, whose clicks and keys are counted."""

    def __init__(self, browser):
        self.browser = browser
        self.acts = 0

    def click(self, selector, text=None, leads=True):
        """On what a person sees: an element of this kind with this text."""
        script = "return [...document.querySelectorAll(arguments[0])].find((e) => e.checkVisibility() && (!arguments[1] || e.textContent.trim().startsWith(arguments[1])))"
        element = until(lambda: self.browser.run(script, selector, text), f"{selector} {text}: {self.browser.text()}", 10)
        self.acts += 1
        if leads:
            self.browser.follow(lambda: self.browser.click(element))
        else:
            self.browser.click(element)

    def press(self, *keys, leads=False):
        self.acts += sum(1 if key in ("Tab", "Enter") else len(key) for key in keys)
        if leads:
            self.browser.follow(lambda: self.browser.press(*keys))
        else:
            self.browser.press(*keys)

    def tab_to(self, selector, text=None):
        at = "return document.activeElement.matches(arguments[0]) && (!arguments[1] || document.activeElement.textContent.trim().startsWith(arguments[1]))"
        for _ in range(100):
            self.press("Tab")
            if self.browser.run(at, selector, text):
                return
        raise AssertionError(f"Tab does not come to {selector} {text}")


class Five(Case):
    def setUp(self):
        self.folder = scene.folder()
        self.addCleanup(self.folder.cleanup)
        self.site = scene.Site(ground.turnwise, self.folder.name, settings=SETTINGS, options=["--name", "node", "--slots", "1"])
        self.addCleanup(self.site.stop)
        self.failed = [self.site.submit("extract", {"page": page}, group="beta") for page in range(3)]
        for job in self.failed:
            self.site.ends_in(job, "failed")
        self.flood = [self.site.submit("sleep", {"ms": 5_000}, group="flood") for _ in range(20)]
        self.acme = [self.site.submit("sleep", {"ms": 5_000}, group="acme") for _ in range(4)]
        until(lambda: self.site.api("jobs?state=running")["jobs"], "nothing runs")

    def errors_are_written(self):
        until(lambda: self.site.api("errors")["errors"], "the errors are written now and then")

    def done(self):
        """What must be so after the errands."""
        self.assertEqual(self.site.api("groups/acme")["weight"], 2)
        self.assertIsNotNone(self.site.api("groups/flood")["paused"])
        self.assertNotIn("failed", [self.site.job(job)["state"] for job in self.failed])

    def fix(self):
        with open(os.path.join(self.folder.name, "fixed"), "w", encoding="utf-8"):
            pass

    def play(self, errands):
        browser = Browser(ground.driver())
        self.addCleanup(browser.close)
        browser.size(1280, 900)
        self.errors_are_written()
        told = []
        for name, errand in errands:
            browser.go(self.site.root)
            hand, began = Hand(browser), time.monotonic()
            errand(hand, browser)
            told.append(f"{name}: {hand.acts} in {time.monotonic() - began:.1f} s")
        self.done()
        return told

    def test_by_clicks_alone(self):
        def failing(hand, browser):
            self.assertIn("task extract", browser.text(".findings"))
            if not ground.table().has("/errors"):
                return
            hand.click(".findings a", "Show the errors")
            self.assertIn("extract", browser.text("main"))
            self.assertIn("Frutiger", browser.text("main"))

        def why(hand, browser):
            hand.click("nav a", "Jobs")
            hand.click("ul.tabs a", "Waiting")
            hand.click(f"tr[data-key='{self.acme[-1]}'] td a")
            browser.until(GROUP_WAITS)

        def weight(hand, browser):
            hand.click("nav a", "Jobs")
            hand.click(f"tr[data-key='{self.acme[-1]}'] td a")
            hand.click("dl.facts a", "acme")
            hand.click("a[data-what-if]", "if it had twice", leads=False)
            browser.until("document.getElementById('what-if').innerText.includes('acme’s p95 wait would')")
            hand.click("button", "Give acme weight 2")

        def retry(hand, browser):
            self.fix()
            hand.click("nav a", "Jobs")
            hand.click("ul.tabs a", "Failed")
            hand.click("a.button", "Run again")
            hand.click("button.danger")
            browser.until("/3 will run again/.test(document.body.innerText)")

        def stop(hand, browser):
            hand.click("nav a", "Jobs")
            hand.click(f"tr[data-key='{self.flood[-1]}'] td a")
            hand.click("dl.facts a", "flood")
            hand.click("summary", "Pause", leads=False)
            hand.click("form[action$='/pause'] button")

        told = self.play([("find the failing task", failing), ("see why acme waits", why), ("more weight after a what-if", weight), ("retry the failed", retry), ("stop one tenant", stop)])
        print("\nclicks: " + "; ".join(told))

    def test_by_keys_alone(self):
        def filtered(hand, text):
            hand.press("g", "j", leads=True)
            hand.press("/")
            hand.press(text, "Enter", leads=True)

        def failing(hand, browser):
            self.assertIn("task extract", browser.text(".findings"))
            if not ground.table().has("/errors"):
                return
            hand.press("g", "e", leads=True)
            self.assertIn("extract", browser.text("main"))

        def why(hand, browser):
            filtered(hand, "group:acme")
            hand.press("j")
            hand.press("Enter", leads=True)
            browser.until(GROUP_WAITS)

        def group(hand, name):
            hand.press("g", "f", leads=True)
            hand.press("/")
            hand.press(name, "Enter", leads=True)

        def weight(hand, browser):
            group(hand, "acme")
            hand.tab_to("a[data-what-if]", "if it had twice")
            hand.press("Enter")
            browser.until("document.getElementById('what-if').innerText.includes('acme’s p95 wait would')")
            hand.tab_to("button", "Give acme weight 2")
            hand.press("Enter", leads=True)

        def retry(hand, browser):
            self.fix()
            filtered(hand, "state:failed")
            hand.press("r")
            hand.press("Enter", leads=True)
            hand.press("y")
            hand.press("Enter", leads=True)
            browser.until("/3 will run again/.test(document.body.innerText)")

        def stop(hand, browser):
            group(hand, "flood")
            hand.tab_to("summary", "Pause")
            hand.press("Enter")
            hand.tab_to("form[action$='/pause'] button")
            hand.press("Enter", leads=True)

        told = self.play([("find the failing task", failing), ("see why acme waits", why), ("more weight after a what-if", weight), ("retry the failed", retry), ("stop one tenant", stop)])
        print("\nkeys: " + "; ".join(told))

    def test_by_commands(self):
        told = []

        def errand(name, *commands):
            began = time.monotonic()
            said = [self.site.cli(*command) for command in commands]
            told.append(f"{name}: {len(commands)} in {time.monotonic() - began:.1f} s")
            return said

        self.assertIn("extract", "".join(errand("find the failing task", ["jobs", "--state", "failed"])))
        errand("see why acme waits", ["jobs", "--group", "acme"], ["why", self.acme[-1]])
        errand("more weight after a what-if", ["simulate", "--weight", "acme=2"], ["group", "set", "acme", "--weight", "2"])
        self.fix()
        errand("retry the failed", ["retry", "--filter", "state:failed", "--yes"])
        errand("stop one tenant", ["group", "pause", "flood"])
        self.done()
        print("\ncommands: " + "; ".join(told))
