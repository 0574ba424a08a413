"""A tenant's page in a frame of the host's own page: with a ticket, on an allowed origin, and nowhere else."""

import subprocess
import urllib.parse

import ground
import scene
from driver import Browser, until
from ground import Case


class Embed(Case):
    def setUp(self):
        if not ground.table().has("/embed"):
            self.skipTest("/embed is not there yet")
        self.pages = [{}, {}]
        self.hosts = [scene.Elsewhere(pages) for pages in self.pages]
        for host in self.hosts:
            self.addCleanup(host.close)
        self.origins = [host.root.rstrip("/") for host in self.hosts]
        self.folder = scene.folder()
        self.addCleanup(self.folder.cleanup)
        options = ["--name", "node", "--embed-origin", self.origins[0]]
        self.site = scene.Site(ground.turnwise, self.folder.name, settings=scene.SETTINGS, options=options)
        self.addCleanup(self.site.stop)
        self.site.token = self.site.cli("token", "create", "--name", "host", "--scope", "submit,read,operate,admin").split()[0]
        self.mine = self.site.submit("noop", {}, group="acme", **{"in": "1h"})
        self.others = self.site.submit("noop", {}, group="beta", **{"in": "1h"})
        self.browser = Browser(ground.driver())
        self.addCleanup(self.browser.close)
        self.browser.size(1280, 900)

    def frame(self, host):
        """Opens a page of the host that has the view in a frame, by a ticket of its own."""
        words = ["--server", self.site.root.rstrip("/"), "--token", self.site.token, "token", "ticket", "--group", "acme", "--scope", "operate"]
        made = subprocess.run([ground.turnwise, *words, "--origin", self.origins[0]], cwd=self.folder.name, env=self.site.around, capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        place = urllib.parse.urljoin(self.site.root, made.stdout.strip())
        self.pages[host]["/"] = f"<h1>Host</h1><iframe id=view width=900 height=700 src='{place}'></iframe>"
        self.browser.go(self.hosts[host].root)
        self.browser.enter(self.browser.find("#view"))

    def test_a_ticket_shows_one_group_in_a_frame_and_lets_it_act(self):
        self.frame(0)
        self.browser.until(f"document.body.innerHTML.includes('{self.mine}')")
        self.assertFalse(self.browser.run(f"return document.body.innerHTML.includes('{self.others}')"))
        # The ticket has gone from the address, and nothing is kept in the browser.
        self.assertEqual(self.browser.run("return [location.hash, document.cookie, localStorage.length, sessionStorage.length]")[:2], ["", ""])
        self.assertNotIn("twt_", self.browser.run("return location.href"))
        form = f"form[action$='jobs/{self.mine}/cancel']"
        if not self.browser.run("return !!document.querySelector(arguments[0])", form):
            self.browser.click(f"a[href*='{self.mine}']")
            self.browser.until(f"document.querySelector(\"{form}\")")
        hidden = self.browser.run("return document.querySelector(arguments[0]).closest('details:not([open])')?.querySelector('summary')", form)
        if hidden:
            self.browser.click(hidden)
        self.browser.click(f"{form} button")
        until(lambda: self.site.job(self.mine)["state"] == "cancelled", "the job was not cancelled")
        # Live: what comes for the group is seen, without the page around it being loaded again.
        new = self.site.submit("noop", {}, group="acme", **{"in": "1h"})
        self.browser.until(f"document.body.innerHTML.includes('{new}')")
        self.browser.enter(None)
        self.assertEqual(self.browser.text("h1"), "Host")

    def test_another_origin_gets_no_view(self):
        self.frame(1)
        self.assertNotIn("noop", self.browser.text())
        self.browser.enter(None)
        self.assertIn("frame-ancestors", " ".join(self.browser.problems()))
        # Nor does a frame of the allowed origin of any other page of the server.
        self.pages[0]["/other"] = f"<iframe id=view src='{self.site.root}jobs'></iframe>"
        self.browser.go(self.hosts[0].root + "other")
        self.assertIn("frame-ancestors", " ".join(self.browser.problems()))
