"""Without its database the server says so at once, on every page, and since when."""

import re
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import ground
import scene
from ground import Case

# Every page answers within this, whatever the database does.
AT_MOST = 2


class Outages(Case):
    def setUp(self):
        super().setUp()
        if not ground.database:
            self.skipTest("TURNWISE_TEST_PG_URL names no PostgreSQL")
        place = urllib.parse.urlsplit(ground.database)
        self.line = scene.Line(place.port)
        self.addCleanup(self.line.close)
        database = ground.database.replace(f":{place.port}/", f":{self.line.port}/")
        self.folder = scene.folder()
        self.addCleanup(self.folder.cleanup)
        self.site = scene.Site(ground.turnwise, self.folder.name, database=database, settings=scene.SETTINGS, options=["--name", "node"])
        self.addCleanup(self.site.stop)
        self.jobs = scene.trouble(self.site)

    def ask(self, address):
        """Status, text and seconds of an answer."""
        began = time.monotonic()
        try:
            with urllib.request.urlopen(self.site.root + address, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        return status, text, time.monotonic() - began

    def test_while_the_database_is_away_every_page_says_so_within_two_seconds(self):
        table = ground.Table(ground.rows, self.jobs)
        self.open("", self.site)
        self.browser.until("document.getElementById('live').dataset.is === 'live'")
        for path, address in table.shown():
            with self.subTest(page=path):
                self.assertEqual(self.ask(address)[0], 200)
        for how in ("silent", "gone"):
            if how == "silent":
                self.line.silent = True
            else:
                self.line.cut()
                self.line.silent = False
            shown = table.shown()
            # A few at a time, as people ask.
            with ThreadPoolExecutor(4) as people:
                answers = list(people.map(self.ask, [address for _, address in shown]))
            for (path, _), (status, text, took) in zip(shown, answers):
                with self.subTest(page=path, how=how):
                    self.assertLessEqual(took, AT_MOST)
                    if path in ("/login", "/group"):
                        continue
                    self.assertEqual(status, 503, text)
                    self.assertRegex(re.sub("<[^>]*>", "", text), r"database answered last at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC")
            # The page that was open says how old it is.
            self.browser.until("/no contact, \\d+ s old/.test(document.getElementById('live').textContent)")
        # A page that could not be made tries again by itself.
        self.open("jobs", self.site)
        self.assertIn("The service cannot answer now", self.browser.text("h1"))
        self.line.mend()
        self.browser.until("document.querySelector('h1').textContent === 'Jobs'")
