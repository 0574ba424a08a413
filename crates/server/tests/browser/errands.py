"""Every action that a page offers: done by its form, and its effect seen in the API and in the audit log. The table of errands is the
server's own; one without a case fails."""

import urllib.parse

import ground
import scene
from driver import until
from ground import Case


class Errand:
    """On which page the form is, about what (a function makes it ready and returns its name), what is filled in, and what must be so then."""

    def __init__(self, page, ready, fields, effect):
        self.page, self.ready, self.fields, self.effect = page, ready, fields, effect


def held(site):
    """A job that waits, of a group of its own."""
    return site.submit("noop", {}, queue="held", group="errands")


def stuck(site):
    job = site.submit("extract", {"page": 99}, group="errands", queue="errands")
    site.ends_in(job, "stuck")
    return job


def ended(site):
    job = site.submit("mail", {"to": "bob"}, group="errands", queue="errands")
    site.ends_in(job, "success")
    return job


def state(wanted):
    return lambda site, name: site.job(name)["state"] == wanted


def paused(kind, wanted):
    def effect(site, name):
        found = site.api(f"{kind}/{name}")
        # Of a schedule that says only whether it is.
        pause = found["pause"] if "pause" in found else found["paused"]
        return (pause and pause.get("reason")) == wanted if wanted else pause is None

    return effect


def a_queue(paused=False, sealed=False):
    def ready(site):
        name = f"errands-{site.count()}"
        site.api(f"queues/{name}", {"concurrency": "3"}, "PATCH")
        if paused:
            site.api(f"queues/{name}/pause", {"reason": "for a while"}, "POST")
        if sealed:
            site.submit("noop", {}, queue=name, **{"in": "2h"})
            site.api(f"queues/{name}/seal", method="POST")
        return name

    return ready


def a_group(paused=False, weight=None):
    def ready(site):
        name = f"errands-{site.count()}"
        site.submit("noop", {}, queue="held", group=name)
        if paused:
            site.api(f"groups/{name}/pause", {"reason": "for a while"}, "POST")
        if weight:
            site.api(f"groups/{name}", {"weight": weight}, "PATCH")
        return name

    return ready


def a_task(limited=False):
    def ready(site):
        name = f"errands-{site.count()}"
        site.submit("mail", {}, queue="held")
        site.api("tasks/mail", {"concurrency": 5} if limited else {"concurrency": None}, "PATCH")
        return "mail"

    return ready


def a_schedule(paused=False):
    def ready(site):
        name = f"errands-{site.count()}"
        site.api(f"schedules/{name}", {"task": "noop", "every": "5h", "group": name}, "PUT")
        if paused:
            site.api(f"schedules/{name}/pause", {"reason": "for a while"}, "POST")
        return name

    return ready


def living(site):
    return next(node for node in site.api("nodes")["nodes"] if node["state"] != "lost")


def of_node(drained):
    return lambda site, name: (living(site)["state"] == "drained") == drained


def a_node(drained=False):
    def ready(site):
        name = living(site)["name"]
        site.api(f"nodes/{name}/{'drain' if drained else 'resume'}", method="POST")
        assert until(lambda: of_node(drained)(site, name), f"{name} has not heard of it", 10)
        return name

    return ready


def gone(kind):
    return lambda site, name: site.api(f"{kind}/{name}", fine=False).get("status") == 404


JOB, QUEUE, GROUP, TASK, SCHEDULE = "/jobs/{id}", "/queues/{name}", "/groups/{name}", "/tasks/{name}", "/schedules/{name}"
ERRANDS = {
    "cancelJob": Errand(JOB, held, {}, state("cancelled")),
    "retryJob": Errand(JOB, stuck, {}, lambda site, job: site.job(job)["attempt"] == 2 or site.job(job)["state"] != "stuck"),
    "rerunJob": Errand(JOB, ended, {}, lambda site, job: site.job(job)["state"] != "success" or site.job(job)["attempt"] > 1 or len(site.jobs("group=errands")) > 1),
    "failJob": Errand(JOB, stuck, {}, state("failed")),
    "changeJob": Errand(JOB, held, {"priority": "9"}, lambda site, job: site.job(job)["priority"] == 9),
    "pauseQueue": Errand(QUEUE, a_queue(), {"reason": "no <b>paper</b>"}, paused("queues", "no <b>paper</b>")),
    "resumeQueue": Errand(QUEUE, a_queue(paused=True), {}, paused("queues", None)),
    "sealQueue": Errand(QUEUE, a_queue(), {}, lambda site, name: site.api(f"queues/{name}")["state"] in ("sealed", "finished")),
    "unsealQueue": Errand(QUEUE, a_queue(sealed=True), {}, lambda site, name: site.api(f"queues/{name}")["state"] == "active"),
    "setQueue": Errand(QUEUE, a_queue(), {"concurrency": "2"}, lambda site, name: site.api(f"queues/{name}")["concurrency"] in (2, "2")),
    "resetQueue": Errand(QUEUE, a_queue(), {}, gone("queues")),
    "pauseGroup": Errand(GROUP, a_group(), {"reason": "they asked for it"}, paused("groups", "they asked for it")),
    "resumeGroup": Errand(GROUP, a_group(paused=True), {}, paused("groups", None)),
    "setGroup": Errand(GROUP, a_group(), {"weight": "3"}, lambda site, name: site.api(f"groups/{name}")["weight"] == 3),
    "resetGroup": Errand(GROUP, a_group(weight=4), {}, lambda site, name: site.api(f"groups/{name}")["weight"] == 1),
    "setTask": Errand(TASK, a_task(), {"concurrency": "2"}, lambda site, name: site.api(f"tasks/{name}")["concurrency"] == 2),
    "resetTask": Errand(TASK, a_task(limited=True), {}, lambda site, name: site.api(f"tasks/{name}")["concurrency"] is None),
    "pauseSchedule": Errand(SCHEDULE, a_schedule(), {"reason": "a holiday"}, paused("schedules", "a holiday")),
    "resumeSchedule": Errand(SCHEDULE, a_schedule(paused=True), {}, paused("schedules", None)),
    "runSchedule": Errand(SCHEDULE, a_schedule(), {}, lambda site, name: len(site.jobs(f"group={name}")) == 1),
    # The second lets the node of the first go on.
    "drainNode": Errand("/nodes", a_node(), {}, of_node(True)),
    "resumeNode": Errand("/nodes", a_node(drained=True), {}, of_node(False)),
    "removeSchedule": Errand(SCHEDULE, a_schedule(), {}, gone("schedules")),
}
# Forms whose case is not like the others, with who tries them.
OTHERS = {
    "/tokens/{name}/revoke": "access.py",
    "/decide": "test_a_decision_about_all_jobs_of_a_filter",
    "/login": "access.py",
    "/logout": "access.py",
    "/theme": "pages.py",
    "/tokens": "access.py",
    "/schedules": "test_a_schedule_is_made_and_changed",
    "/jobs/{id}/resubmit": "test_a_job_is_edited_and_submitted_again",
}


class Errands(Case):
    def setUp(self):
        super().setUp()
        site = ground.site()
        if not any(queue["name"] == "held" for queue in site.api("queues")["queues"]):
            site.api("queues/held/pause", {"reason": "nothing starts here"}, "POST")

    def test_every_form_has_a_case(self):
        for row in ground.rows:
            if row["verb"] == "POST":
                self.assertTrue(row["errand"] in ERRANDS or row["path"] in OTHERS, f"{row} has no case in errands.py")

    def form(self, path, name):
        """The selector of the form that is sent there; what hides it is opened."""
        for quoted in (name, urllib.parse.quote(name, safe="")):
            to = path.replace("{id}", quoted).replace("{name}", quoted)
            selector = f"form[action$='{to}']"
            if self.browser.run("return !!document.querySelector(arguments[0])", selector):
                break
        else:
            raise AssertionError(f"no form is sent to {to}: {self.browser.url()}\n{self.browser.text()}")
        hidden = "const d = document.querySelector(arguments[0]).closest('details:not([open])'); d?.querySelector('summary').scrollIntoView(); return d?.querySelector('summary')"
        while summary := self.browser.run(hidden, selector):
            self.browser.click(summary)
        return selector

    def do(self, route, case, scripts):
        site, path = ground.site(), ground.table().forms()[route]
        name = case.ready(site)
        before = site.api(f"audit?limit=1")["lines"]
        self.open(case.page.replace("{id}", name).replace("{name}", name)[1:])
        selector = self.form(path, name)
        for field, text in case.fields.items():
            self.browser.write(f"{selector} [name={field}]", text)
        self.browser.submit(f"{selector} button:not([type=button])")
        self.assertTrue(self.browser.text(".done"), self.browser.text())
        self.assertTrue(until(lambda: case.effect(site, name), f"{route} had no effect on {name}", 10))
        line = site.api("audit?limit=1")["lines"]
        # To submit a job is no change that the log is for.
        if route != "runSchedule":
            self.assertNotEqual(line[:1], before[:1], "the audit log has it")
        # A page that is loaded again does nothing again.
        self.open(self.browser.url()[len(site.root) :])
        self.assertEqual(site.api("audit?limit=1")["lines"], line)

    def test_every_errand_does_what_it_says(self):
        forms = ground.table().forms()
        for route, case in ERRANDS.items():
            if not ground.table().has(case.page) or route not in forms:
                print(f"{route}: {case.page} is not there yet")
                continue
            with self.subTest(errand=route):
                self.do(route, case, True)

    def test_forms_need_no_script(self):
        self.browser.scripts(False)
        for route in ("cancelJob", "setGroup", "pauseGroup"):
            with self.subTest(errand=route):
                self.do(route, ERRANDS[route], False)

    def test_what_is_wrong_with_a_form_is_said(self):
        group = a_group()(ground.site())
        self.open(f"groups/{group}")
        selector = self.form("/groups/{name}/set", group)
        self.browser.write(f"{selector} [name=rate]", "often")
        self.browser.submit(f"{selector} button")
        self.assertIn("rate", self.browser.text("main"))
        self.assertIsNone(ground.site().api(f"groups/{group}")["rate"])

    def test_a_decision_about_all_jobs_of_a_filter(self):
        site = ground.site()
        group = a_group()(site)
        for _ in range(24):
            site.submit("noop", {}, queue="held", group=group)
        self.open(f"jobs?filter=group:{group}")
        self.browser.follow(lambda: self.browser.click("a[href*='do=cancel']"))
        self.assertIn("25 jobs", self.browser.text("main"))
        # What comes after the preview is left alone.
        late = site.submit("noop", {}, queue="held", group=group)
        self.browser.submit("button.danger")
        self.browser.until("/25 cancelled/.test(document.body.innerText)")
        self.assertIn("Done", self.browser.text("main"))
        self.assertEqual(site.job(late)["state"], "waiting")
        self.assertEqual(len(site.jobs(f"group={group}&state=cancelled")), 25)

    def test_a_schedule_is_made_and_changed(self):
        site = ground.site()
        if not ground.table().has("/schedules"):
            self.skipTest("/schedules is not there yet")
        self.open("schedules")
        self.browser.click("details.errand > summary")
        form = "form[action$='schedules']"
        for field, text in {"name": "made-here", "task": "noop", "every": "6h", "args": '{"a": 1}'}.items():
            self.browser.write(f"{form} [name={field}]", text)
        self.browser.submit(f"{form} button.main")
        made = site.api("schedules/made-here")
        self.assertEqual((made["task"], made["args"]), ("noop", {"a": 1}))
        # What is wrong with it is said, and what was written is still there.
        self.open("schedules")
        self.browser.click("details.errand > summary")
        for field, text in {"name": "made-wrong", "task": "noop", "every": "now and then"}.items():
            self.browser.write(f"{form} [name={field}]", text)
        self.browser.submit(f"{form} button.main")
        self.assertIn("now and then", self.browser.text("[role=alert]"))
        self.assertEqual(self.browser.run("return document.querySelector('[name=every]').value"), "now and then")
        self.assertEqual(site.api("schedules/made-wrong", fine=False)["status"], 404)

    def test_a_job_is_edited_and_submitted_again(self):
        site = ground.site()
        if not ground.table().has("/jobs/{id}/resubmit"):
            self.skipTest("/jobs/{id}/resubmit is not there yet")
        job = site.submit("mail", {"to": "ann"}, group="resubmits")
        site.ends_in(job, "success")
        self.open(f"jobs/{job}/resubmit")
        form = "form[action$='resubmit']"
        self.browser.write(f"{form} [name=args]", '{"to": "bob"}')
        self.browser.submit(f"{form} button.main")
        jobs = [site.job(row["id"]) for row in site.jobs("group=resubmits")]
        self.assertEqual([made["args"] for made in jobs], [{"to": "bob"}, {"to": "ann"}])
