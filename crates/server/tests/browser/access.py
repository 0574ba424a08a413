"""Who may see and do what: logging in and out, tokens that may less, and pages of other origins."""

import urllib.error
import urllib.request

import ground
import scene
from driver import Browser, until
from ground import Case


class Access(Case):
    """With a server whose callers need a token."""

    @classmethod
    def setUpClass(cls):
        cls.folder = scene.folder()
        cls.site = scene.Site(ground.turnwise, cls.folder.name, settings=scene.SETTINGS, options=["--name", "node"])
        cls.jobs = scene.trouble(cls.site)
        cls.admin = cls.site.cli("token", "create", "--name", "ann", "--scope", "submit,read,operate,admin").split()[0]
        cls.site.token = cls.admin
        cls.reader = cls.site.cli("token", "create", "--name", "rob", "--scope", "read").split()[0]
        cls.tenant = cls.site.cli("token", "create", "--name", "tim", "--scope", "read,operate", "--group", "beta").split()[0]

        # The server learns of the first token a moment later.
        until(lambda: cls.strangers() == 401, "strangers are served")

    @classmethod
    def strangers(cls):
        try:
            urllib.request.urlopen(cls.site.root + "api/v1/jobs", timeout=30).close()
        except urllib.error.HTTPError as error:
            return error.code

    @classmethod
    def tearDownClass(cls):
        cls.site.stop()
        cls.folder.cleanup()

    def setUp(self):
        self.browser = Browser(ground.driver())
        self.addCleanup(self.browser.close)
        self.browser.size(1280, 900)

    def log_in(self, token, address=""):
        self.open(address, self.site)
        self.browser.write("input[name=token]", token)
        self.browser.submit("main form button")

    def test_a_person_logs_in_comes_to_where_it_wanted_to_go_and_logs_out(self):
        self.open("jobs?filter=group:beta", self.site)
        self.assertEqual(self.browser.text("h1"), "Log in")
        self.browser.write("input[name=token]", "tw_nonsense")
        self.browser.submit("main form button")
        self.assertIn("token", self.browser.text("[role=alert]"))
        self.browser.write("input[name=token]", self.admin)
        self.browser.submit("main form button")
        self.assertEqual(self.browser.text("h1"), "Jobs")
        self.assertEqual(self.browser.run("return document.getElementById('filter').value"), "group:beta")
        self.assertIn("ann", self.browser.text(".who"))
        # A script cannot read the log-in.
        self.assertEqual(self.browser.run("return document.cookie"), "")
        self.browser.submit(".who button")
        self.open("jobs", self.site)
        self.assertEqual(self.browser.text("h1"), "Log in")

    def test_a_token_that_may_only_read_is_offered_no_action(self):
        self.log_in(self.reader, f"jobs/{self.jobs['stuck'][0]}")
        for address in (f"jobs/{self.jobs['stuck'][0]}", "groups/acme", "jobs", "queues/slow"):
            self.open(address, self.site)
            forms = "return [...document.querySelectorAll('main form[method=post]')].map((f) => f.action)"
            self.assertEqual(self.browser.run(forms), [], address)

    def test_a_token_of_one_group_sees_that_group_alone(self):
        self.log_in(self.tenant)
        others = [*self.jobs["stuck"], *self.jobs["flood"], self.jobs["running"], self.jobs["later"]]
        for address in ("", "jobs", "jobs?filter=state:waiting", "fairness", "groups/beta", "queues", "errors"):
            self.open(address, self.site)
            # But for the examples in a field and in a command.
            text = "const copy = (document.querySelector('main') ?? document.body).cloneNode(true); copy.querySelectorAll('code, .recipe').forEach((e) => e.remove()); return copy.textContent + [...copy.querySelectorAll('a')].map((a) => a.getAttribute('href'))"
            html = self.browser.run(text)
            seen = [word for word in [*others, "acme", "delta"] if word in html]
            self.assertEqual(seen, [], address)
        self.open("jobs", self.site)
        self.assertGreater(self.browser.run("return document.querySelectorAll('tbody tr').length"), 0)
        for address in (f"jobs/{others[0]}", "groups/acme"):
            self.open(address, self.site)
            self.assertRegex(self.browser.text("h1"), "no such thing|not allowed", address)

    def test_a_page_of_another_origin_can_neither_change_nor_show_anything(self):
        self.log_in(self.admin)
        self.assertEqual(self.browser.text("h1"), "Overview")
        root = self.site.root
        other = scene.Elsewhere(
            {
                "/form": f"<form method=post action='{root}groups/beta/pause'><input name=reason value=evil><button>Win</button></form>",
                "/frame": f"<p>here</p><iframe id=frame src='{root}'></iframe>",
                "/fetch": "<p>here</p>",
            }
        )
        self.addCleanup(other.close)
        self.browser.go(other.root + "form")
        self.browser.follow(lambda: self.browser.click("button"))
        self.assertIn("not allowed", self.browser.text("h1"))
        self.assertIsNone(self.site.api("groups/beta")["paused"])
        self.browser.problems()
        self.browser.go(other.root + "frame")
        self.browser.enter(self.browser.find("#frame"))
        self.assertNotIn("Overview", self.browser.text())
        self.browser.enter(None)
        self.assertRegex(" ".join(self.browser.problems()), "frame-ancestors|X-Frame-Options")
        self.browser.go(other.root + "fetch")
        read = "const done = arguments[1]; fetch(arguments[0], { credentials: 'include' }).then((a) => a.text()).then(done, () => done('refused'))"
        self.assertEqual(self.browser.wait_for(read, root + "api/v1/jobs"), "refused")

    def test_a_token_is_made_shown_once_used_and_revoked(self):
        if not ground.table().has("/tokens"):
            self.skipTest("/tokens is not there yet")
        self.log_in(self.admin, "tokens")
        self.browser.write("main form [name=name]", "made-here")
        self.browser.click("main form [name=scopes][value=read]")
        self.browser.submit("main form[action$='tokens'] button.main")
        secret = self.browser.text("code.secret")
        self.assertRegex(secret, "^tw_")
        made = next(token for token in self.site.api("tokens")["tokens"] if token["name"] == "made-here")
        self.assertEqual(made["scopes"], ["read"])
        asked = urllib.request.Request(self.site.root + "api/v1/jobs", headers={"Authorization": f"Bearer {secret}"})
        urllib.request.urlopen(asked, timeout=30).close()
        self.open("tokens", self.site)
        self.assertNotIn(secret, self.browser.run("return document.documentElement.outerHTML"))
        row = f"tr[data-key='{made['id']}']"
        self.browser.click(f"{row} details.errand > summary")
        self.browser.submit(f"{row} form button")
        revoked = next(token for token in self.site.api("tokens")["tokens"] if token["name"] == "made-here")
        self.assertEqual(revoked["state"], "revoked")
