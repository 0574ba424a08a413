"""What the browser looks at: a server with jobs of all kinds, on a database of its own, reached by lines that a test can cut."""

import http.client
import http.server
import json
import os
import select
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from driver import until


class Line:
    """Passes on what is sent to a port of this machine, until it is told not to."""

    def __init__(self, port):
        self.to = port
        self.open = True
        self.silent = False
        self.pairs = {}
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if not self.open:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            with self.lock:
                self.pairs[near] = b""
            threading.Thread(target=self._pass, args=(near, far), daemon=True).start()

    def _pass(self, near, far):
        try:
            while True:
                ready, _, _ = select.select([near, far], [], [], 0.2)
                for one in ready:
                    while self.silent:
                        time.sleep(0.02)
                    data = one.recv(65536)
                    if not data:
                        return
                    if one is near:
                        self.pairs[near] = data.split(b"\r\n", 1)[0]
                    (far if one is near else near).sendall(data)
        except OSError:
            pass
        finally:
            with self.lock:
                self.pairs.pop(near, None)
            near.close()
            far.close()

    def asked(self, path):
        """How many connections have asked for this last and are still open."""
        with self.lock:
            return sum(1 for asked in self.pairs.values() if path.encode() in asked)

    def cut(self):
        """Nobody gets through any more."""
        self.open = False
        with self.lock:
            for near in self.pairs:
                near.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self.open = True

    def close(self):
        self.listener.close()


class Site:
    """A server, and the API as a program asks it."""

    def __init__(self, turnwise, folder, database=None, settings="", options=(), demo_tasks=True):
        self.turnwise, self.folder = turnwise, folder
        os.makedirs(folder, exist_ok=True)
        self.database = database or f"sqlite:{folder}/jobs.db"
        self.around = {name: value for name, value in os.environ.items() if not name.startswith("TURNWISE_")}
        with open(os.path.join(folder, "turnwise.toml"), "w", encoding="utf-8") as file:
            file.write(settings)
        self.log = open(os.path.join(folder, "log"), "a", encoding="utf-8")
        command = [turnwise, "serve", "--listen", "127.0.0.1:0", "--log", "warn", "--database", self.database, *options]
        if demo_tasks:
            command.append("--demo-tasks")
        self.process = subprocess.Popen(
            command, cwd=folder, env=self.around, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        said = self.process.stdout.readline()
        if "http://" not in said:
            raise SystemExit(f"the server did not start: {said} {open(self.log.name, encoding='utf-8').read()}")
        self.root = said[said.index("http://") :].split()[0] + "/"
        self.port = urllib.parse.urlsplit(self.root).port
        self.token = None
        self.counted = 0

    def count(self):
        """A number that no other thing of this site has."""
        self.counted += 1
        return self.counted

    def cli(self, *words):
        """What a command of the binary says."""
        ended = subprocess.run(
            [self.turnwise, *words, "--database", self.database], cwd=self.folder, env=self.around, capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            raise AssertionError(f"turnwise {' '.join(words)}: {ended.stderr}")
        return ended.stdout

    def api(self, path, body=None, method=None, fine=True):
        """The JSON of an answer of the API."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.root}api/v1/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if fine:
                raise AssertionError(f"{path}: {error.code}: {error.read().decode()}") from error
            return json.loads(error.read())

    def submit(self, task, args=None, **options):
        return self.api("jobs", {"task": task, "args": {} if args is None else args, **options})["id"]

    def jobs(self, query):
        """All jobs of a list, page after page."""
        found, more = [], ""
        while True:
            page = self.api(f"jobs?{query}{more}")
            found += page["jobs"]
            if not page["next"]:
                return found
            more = f"&cursor={page['next']}"

    def job(self, name):
        return self.api(f"jobs/{name}")

    def ends_in(self, name, state):
        """The job, once it is in this state."""
        return until(lambda: (lambda job: job if job["state"] == state else None)(self.job(name)), lambda: f"{name} is {self.job(name)['state']}, not {state}")

    def stop(self):
        # At once: an orderly end waits for running jobs.
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


def folder():
    """A new one, which goes with the test."""
    return tempfile.TemporaryDirectory(prefix="turnwise-browser-")


# Tasks that are programs: the node runs them as a user's own.
SETTINGS = """
[tasks.extract]
command = ["sh", "-c", "echo 'page {args.page} cannot be read: timeout after 30 s' >&2; exit 1"]
retry = "exponential:1h,5"

[tasks.mail]
command = ["sh", "-c", "echo sent; sleep 0.05"]
"""


def trouble(site):
    """A site as an operator meets it: jobs in every state, a task that fails, a group that floods, a queue that is paused."""
    names = {}
    names["ended"] = site.submit("mail", {"to": "ann@example.com"}, group="beta")
    names["stuck"] = [site.submit("extract", {"page": page}, group="acme") for page in range(6)]
    site.api("queues/slow/pause", {"reason": "the disk is full"}, "POST")
    names["flood"] = [site.submit("noop", {"number": number}, group="acme", queue="slow") for number in range(60)]
    names["few"] = [site.submit("noop", {"number": number}, group="beta", queue="slow") for number in range(5)]
    names["first"] = site.submit("noop", {}, group="beta", queue="slow")
    names["after"] = site.submit("noop", {}, group="beta", queue="slow", after=[names["first"]])
    names["later"] = site.submit("noop", {}, group="gamma", **{"in": "2h"})
    names["cancelled"] = site.submit("noop", {}, group="gamma", **{"in": "3h"})
    site.api(f"jobs/{names['cancelled']}/cancel", method="POST")
    site.api("schedules/nightly", {"task": "noop", "cron": "30 2 * * *", "zone": "Europe/Berlin", "group": "beta"}, "PUT")
    names["unknown"] = site.submit("nobody-knows-this", {}, group="gamma")
    names["running"] = site.submit("sleep", {"ms": 600_000}, group="delta")
    for job in names["stuck"]:
        site.ends_in(job, "stuck")
    site.ends_in(names["ended"], "success")
    site.ends_in(names["running"], "running")
    return names


class Elsewhere:
    """A web site of another origin, with these pages."""

    def __init__(self, pages):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = pages.get(self.path, "").encode()
                self.send_response(200 if text else 404)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Prefixes:
    """A reverse proxy: servers under paths of one origin, by the name before the second slash."""

    def __init__(self, sites):
        prefixes = self
        self.streams = dict.fromkeys(sites, 0)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                _, name, path = self.path.split("/", 2)
                if name not in sites:
                    self.send_error(404)
                    return
                there = http.client.HTTPConnection("127.0.0.1", sites[name].port, timeout=100)
                there.request("GET", f"/{path}", headers={key: value for key, value in self.headers.items() if key.lower() != "connection"})
                answer = there.getresponse()
                self.send_response(answer.status)
                for key, value in answer.getheaders():
                    if key.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(key, value)
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                is_stream = path.startswith("api/v1/events")
                prefixes.streams[name] += is_stream
                try:
                    while data := answer.read1(65536):
                        self.wfile.write(data)
                        self.wfile.flush()
                except (OSError, ValueError, http.client.HTTPException):
                    # Who asked is gone, or who answers.
                    pass
                finally:
                    prefixes.streams[name] -= is_stream
                    there.close()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
