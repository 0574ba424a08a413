"""Pages that go on by themselves: one stream for all tabs, nothing jumps, and a person sees how old what is shown is."""

import urllib.parse

import ground
import scene
from driver import Browser, until
from ground import Case
from pages import SHIFT, SHIFTED

EVENTS = "/api/v1/events"


class Live(Case):
    """With a server and a browser of its own: what others do must not be seen as an update."""

    @classmethod
    def setUpClass(cls):
        cls.folder = scene.folder()
        cls.site = scene.Site(ground.turnwise, cls.folder.name, settings=scene.SETTINGS, options=["--name", "node"])
        cls.site.api("queues/held/pause", {"reason": "so that jobs stay"}, "POST")
        cls.site.submit("noop", {}, queue="held", group="acme")

    @classmethod
    def tearDownClass(cls):
        cls.site.stop()
        cls.folder.cleanup()

    def setUp(self):
        self.line = scene.Line(self.site.port)
        self.root = f"http://127.0.0.1:{self.line.port}/"
        self.browser = Browser(ground.driver())
        self.addCleanup(self.line.close)
        self.addCleanup(self.browser.close)
        self.browser.size(1280, 900)

    def go(self, address):
        """Opens a page, and waits until it is live."""
        self.browser.go(self.root + address)
        self.browser.until("document.querySelector('#live')?.dataset.is === 'live'")
        until(lambda: self.line.asked(EVENTS), "no stream of events was asked for")
        self.browser.run("window.sameDocument = true")

    def submit(self, **options):
        return self.site.submit("noop", {}, **{"queue": "held", "group": "acme", **options})

    def test_what_happens_is_seen_without_loading_the_page_again(self):
        self.go("")
        number = "document.querySelector('.numbers b').textContent"
        before = int(self.browser.run(f"return {number}"))
        self.submit()
        self.browser.until(f"{number} === '{before + 1}'")
        self.assertTrue(self.browser.run("return window.sameDocument"))
        self.assertLessEqual(self.browser.wait_for(SHIFTED), SHIFT)

    def test_a_job_is_followed_to_its_end(self):
        job = self.submit(queue="followed", **{"in": "2h"})
        self.go(f"jobs/{job}")
        self.assertEqual(self.browser.text(".heading .state"), "waiting")
        self.site.api(f"jobs/{job}/retry", method="POST", fine=False)
        self.site.api(f"jobs/{job}", {"in": "0s"}, "PATCH")
        self.browser.until("document.querySelector('.heading .state').textContent === 'success'")
        self.assertTrue(self.browser.run("return window.sameDocument"))

    def test_a_list_does_not_jump_but_says_how_many_are_new(self):
        self.go("jobs?filter=group:acme")
        rows = "document.querySelectorAll('tbody tr').length"
        first = "document.querySelector('tbody tr').dataset.key"
        many, top = self.browser.run(f"return {rows}"), self.browser.run(f"return {first}")
        new = [self.submit(), self.submit()]
        self.browser.until("/^2 new/.test(document.getElementById('fresh').textContent)")
        self.assertEqual((self.browser.run(f"return {rows}"), self.browser.run(f"return {first}")), (many, top))
        self.assertLessEqual(self.browser.wait_for(SHIFTED), SHIFT)
        self.browser.click("#fresh")
        self.browser.until(f"{first} === '{new[1]}'")
        self.assertEqual(self.browser.run(f"return {rows}"), many + 2)
        self.browser.until("document.getElementById('fresh').hidden")

    def test_ten_tabs_share_one_stream_and_all_go_on(self):
        self.go("")
        tabs = [self.browser.here()]
        for _ in range(9):
            # Windows of their own: all of them are seen.
            tabs.append(self.browser.window("window"))
            self.go("")
        self.assertEqual(self.line.asked(EVENTS), 1)
        number = "document.querySelector('.numbers b').textContent"
        after = str(int(self.browser.run(f"return {number}")) + 1)
        self.submit()
        for tab in tabs:
            self.browser.turn_to(tab)
            self.browser.until(f"{number} === '{after}'")
            self.assertTrue(self.browser.run("return window.sameDocument"))
        # The one that reads the stream is closed: another one goes on.
        self.browser.turn_to(tabs[0])
        self.browser.close_window()
        self.browser.turn_to(tabs[5])
        after = str(int(after) + 1)
        until(lambda: self.line.asked(EVENTS) == 1, lambda: f"{self.line.asked(EVENTS)} streams")
        self.submit()
        for tab in tabs[1:]:
            self.browser.turn_to(tab)
            self.browser.until(f"{number} === '{after}'")
            # And every one answers what a person asks.
            self.browser.follow(lambda: self.browser.click("nav a[href$=fairness]"))
            self.assertEqual(self.browser.text("h1"), "Fairness")
        self.assertEqual(self.line.asked(EVENTS), 1)

    def test_a_lost_stream_is_shown_with_the_age_of_what_is_seen(self):
        self.go("")
        self.line.cut()
        self.browser.until("/no contact, \\d+ s old/.test(document.getElementById('live').textContent)")
        age = "Number(/(\\d+) s old/.exec(document.getElementById('live').textContent)[1])"
        seen = self.browser.run(f"return {age}")
        self.browser.until(f"{age} > {seen + 1}")
        # What was there is still there.
        self.assertTrue(self.browser.run("return document.querySelector('.numbers b').textContent !== ''"))
        self.line.mend()
        self.browser.until("document.getElementById('live').dataset.is === 'live'")
        self.assertTrue(self.browser.run("return window.sameDocument"))

    def test_live_updates_can_be_paused(self):
        self.go("")
        number = "document.querySelector('.numbers b').textContent"
        before = self.browser.run(f"return {number}")
        self.browser.click("#live button")
        self.browser.until("document.getElementById('live').dataset.is === 'paused'")
        here = self.browser.here()
        self.browser.window("window")
        self.go("")
        self.submit()
        # Another window has it, so this one has heard of it, too.
        self.browser.until(f"{number} === '{int(before) + 1}'")
        self.browser.turn_to(here)
        self.assertEqual(self.browser.run(f"return {number}"), before)
        self.browser.click("#live button")
        self.browser.until(f"{number} === '{int(before) + 1}'")

    def test_the_focus_and_what_is_being_written_stay_where_they_are(self):
        self.go("")
        link = "td a[href$='queues/held']"
        self.browser.until(f"document.querySelector(\"{link}\")")
        self.browser.press("Tab")
        self.browser.run("document.querySelector(arguments[0]).focus()", link)
        made = self.browser.run("return document.getElementById('made').dateTime")
        self.submit()
        self.browser.until(f"document.getElementById('made').dateTime !== '{made}'")
        self.assertTrue(self.browser.run("return document.activeElement === document.querySelector(arguments[0])", link))
        self.assertTrue(self.browser.run("return document.activeElement.matches(':focus-visible')"))
        self.go("groups/acme")
        self.browser.write("input[name=rate]", "7/1m")
        made = self.browser.run("return document.getElementById('made').dateTime")
        self.submit()
        self.browser.until(f"document.getElementById('made').dateTime !== '{made}'")
        self.assertEqual(self.browser.run("return document.querySelector('input[name=rate]').value"), "7/1m")
        self.assertEqual(self.browser.run("return document.activeElement.name"), "rate")

    def test_a_page_whose_thing_is_gone_says_so_and_not_that_the_server_is(self):
        self.site.api("schedules/short", {"task": "noop", "every": "5h"}, "PUT")
        self.go("schedules/short")
        self.site.api("schedules/short", method="DELETE")
        self.submit()
        self.browser.until("document.getElementById('live').dataset.is === 'gone'")
        self.assertRegex(self.browser.text("#live"), r"as it was \d+ s ago; now: ")
        self.assertNotIn("no contact", self.browser.text("#live"))
        # What was there can still be read.
        self.assertIn("short", self.browser.text("h1"))

    def test_why_a_job_waits_is_said_again_when_it_has_changed(self):
        job = self.submit()
        self.go(f"jobs/{job}")
        self.browser.until("document.querySelector('[data-fragment]')?.dataset.begun === 'done'")
        self.assertIn("queue held is paused", self.browser.text("[data-fragment]"))
        self.site.api("groups/acme/pause", {"reason": "they asked"}, "POST")
        self.addCleanup(lambda: self.site.api("groups/acme/resume", method="POST"))
        self.submit()
        self.browser.until("document.querySelector('[data-fragment]').innerText.includes('they asked')")
        self.assertTrue(self.browser.run("return window.sameDocument"))

    def test_the_axis_of_a_chart_is_in_the_zone_of_its_viewer(self):
        self.addCleanup(lambda: self.browser.zone(""))
        self.browser.zone("Asia/Kathmandu")
        self.go("")
        self.assertEqual(self.browser.run("return document.querySelector('svg.lines .zone').textContent"), "GMT+5:45")
        tick = "document.querySelector('svg.lines text[data-at]')"
        shown, at = self.browser.run(f"return [{tick}.textContent, Number({tick}.dataset.at)]")
        local = (at // 60 + 5 * 60 + 45) % (24 * 60)
        self.assertEqual(shown, f"{local // 60:02}:{local % 60:02}")

    def test_a_hidden_tab_asks_for_nothing_until_it_is_seen_again(self):
        self.go("")
        number = "document.querySelector('.numbers b').textContent"
        before = int(self.browser.run(f"return {number}"))
        here = self.browser.here()
        # In front of the other one.
        self.browser.window()
        until(lambda: self.line.asked(EVENTS) == 0, lambda: f"{self.line.asked(EVENTS)} streams for a tab that is not seen")
        self.submit()
        self.browser.close_window()
        self.browser.turn_to(here)
        self.browser.until(f"{number} === '{before + 1}'")
        until(lambda: self.line.asked(EVENTS) == 1, lambda: f"{self.line.asked(EVENTS)} streams")
        self.assertTrue(self.browser.run("return window.sameDocument"))

    def test_two_servers_of_one_origin_are_live_beside_one_another(self):
        folder = scene.folder()
        self.addCleanup(folder.cleanup)
        other = scene.Site(ground.turnwise, folder.name, options=["--name", "other"])
        self.addCleanup(other.stop)
        other.api("queues/held/pause", {}, "POST")
        prefixes = scene.Prefixes({"a": self.site, "b": other})
        self.addCleanup(prefixes.close)
        number = "document.querySelector('.numbers b').textContent"
        tabs = {}
        for name in ("a", "b"):
            tabs[name] = self.browser.window("window")
            self.browser.go(f"{prefixes.root}{name}/")
            self.browser.until("document.querySelector('#live')?.dataset.is === 'live'")
            until(lambda: prefixes.streams[name] == 1, f"no stream of events under /{name}/")
        for name, site in (("a", self.site), ("b", other)):
            self.browser.turn_to(tabs[name])
            before = int(self.browser.run(f"return {number}"))
            site.submit("noop", {}, queue="held")
            self.browser.until(f"{number} === '{before + 1}'")
            self.browser.follow(lambda: self.browser.click("nav a[href$=jobs]"))
            self.assertEqual(urllib.parse.urlsplit(self.browser.url()).path, f"/{name}/jobs")

    def test_a_what_if_is_answered_within_the_page_and_done_from_there(self):
        self.site.ends_in(self.submit(queue="default"), "success")
        until(lambda: self.site.api("statistics?by=group&queue=default")["points"], "numbers are written now and then")
        self.go("fairness?queue=default")
        row = "tr[data-key='group acme']"
        self.browser.until(f"document.querySelector(\"{row} form[data-what-if]\")")
        self.browser.write(f"{row} input[name=concurrency]", "2")
        self.browser.click(f"{row} form[data-what-if] button")
        self.browser.until("document.querySelector('#what-if h2')?.textContent === 'If acme had at most 2 jobs at a time'")
        self.assertTrue(self.browser.run("return window.sameDocument"))
        self.assertTrue(self.browser.run("return document.activeElement.matches('#what-if h2')"))
        self.assertIsNone(self.site.api("groups/acme")["concurrency"], "nothing is changed by the question")
        self.browser.follow(lambda: self.browser.click("#what-if button.main"))
        self.assertEqual(self.site.api("groups/acme")["concurrency"], 2)
        self.assertIn("/fairness?", self.browser.url())
