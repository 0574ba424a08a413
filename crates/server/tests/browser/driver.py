"""A browser that is driven by WebDriver: chromedriver is a small HTTP server, and this asks it. Nothing beyond the standard library."""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import time

# How long a test waits for what must come.
PATIENCE = 30
# What WebDriver calls a reference to an element.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Shift": "\ue008", "Space": " ", "Down": "\ue015"}


class Refused(Exception):
    """What the browser could not do."""


def until(found, what, patience=PATIENCE):
    """What `found` returns, as soon as it is something."""
    end = time.monotonic() + patience
    while True:
        last = found()
        if last:
            return last
        if time.monotonic() > end:
            raise AssertionError(f"after {patience} s: {what() if callable(what) else what}")
        time.sleep(0.05)


class Driver:
    """chromedriver, as a process of its own."""

    def __init__(self):
        program = shutil.which("chromedriver")
        if not program:
            raise SystemExit("chromedriver is missing (Debian: the packages chromium and chromium-driver)")
        self.process = subprocess.Popen(
            [program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        port = None
        for line in self.process.stdout:
            said = re.search(r"started successfully on port (\d+)", line)
            if said:
                port = int(said[1])
                break
        if port is None:
            raise SystemExit("chromedriver did not start")
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise Refused(f"{answer['error']}: {answer.get('message', '').splitlines()[0]}")
        return answer

    def stop(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Browser:
    """One browser with a profile of its own. All its windows share cookies, as a person's do."""

    def __init__(self, driver):
        arguments = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--lang=en-GB"]
        if os.getuid() == 0:
            # Chromium has no sandbox for root.
            arguments.append("--no-sandbox")
        options = {"args": arguments, "binary": shutil.which("chromium")}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}, "timeouts": {"script": 60000, "pageLoad": 60000}}
        self.driver = driver
        self.session = driver.ask("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]
        self.blocked = False

    def ask(self, method, path, body=None):
        return self.driver.ask(method, f"/session/{self.session}{path}", body)

    def close(self):
        self.ask("DELETE", "")

    # Where it is.

    def go(self, url):
        self.ask("POST", "/url", {"url": url})

    def url(self):
        return self.ask("GET", "/url")

    def window(self, kind="tab"):
        """Opens another window, which gets what follows."""
        handle = self.ask("POST", "/window/new", {"type": kind})["handle"]
        self.turn_to(handle)
        return handle

    def turn_to(self, handle):
        self.ask("POST", "/window", {"handle": handle})

    def here(self):
        return self.ask("GET", "/window")

    def close_window(self):
        return self.ask("DELETE", "/window")

    def enter(self, frame):
        """Into a frame, or out of all with `None`."""
        self.ask("POST", "/frame", {"id": frame})

    # What is there.

    def run(self, script, *args):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait_for(self, script, *args):
        """What a script returns that says when it is done: it calls its last argument."""
        return self.ask("POST", "/execute/async", {"script": script, "args": list(args)})

    def until(self, script, *args, patience=PATIENCE):
        """Waits until an expression is true in the page."""
        return until(lambda: self.run(f"return {script}", *args), lambda: f"{script}\n{self.text()[:2000]}", patience)

    def find(self, selector):
        return self.ask("POST", "/element", {"using": "css selector", "value": selector})

    def all(self, selector):
        return self.ask("POST", "/elements", {"using": "css selector", "value": selector})

    def text(self, selector="body"):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    # What a person does.

    def click(self, element):
        element = self.find(element) if isinstance(element, str) else element
        self.ask("POST", f"/element/{element[ELEMENT]}/click", {})

    def write(self, element, text):
        """Instead of what stands in a field."""
        element = self.find(element) if isinstance(element, str) else element
        self.ask("POST", f"/element/{element[ELEMENT]}/clear", {})
        if text:
            self.ask("POST", f"/element/{element[ELEMENT]}/value", {"text": text})

    def press(self, *keys):
        """Keys, one after the other, to what has the focus; a name of `KEYS` or what is typed. `Shift+Tab` is both at once."""
        actions = []
        for key in keys:
            held = [KEYS[name] for name in key.split("+")[:-1]] if "+" in key and len(key) > 1 else []
            last = key.split("+")[-1] if held else key
            strokes = [KEYS[last]] if last in KEYS else list(last)
            actions += [{"type": "keyDown", "value": value} for value in held]
            for stroke in strokes:
                actions += [{"type": "keyDown", "value": stroke}, {"type": "keyUp", "value": stroke}]
            actions += [{"type": "keyUp", "value": value} for value in held]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def submit(self, selector):
        """Presses the button of a form, and waits for the page that follows."""
        self.follow(lambda: self.click(selector))

    def follow(self, act):
        """Does something that leads to another page, and waits for it."""
        self.run("window.wasBefore = true")
        act()
        gone = "return !window.wasBefore && document.readyState === 'complete'"
        until(lambda: self.gently(gone), lambda: f"no page followed {self.url()}: {self.text()[:2000]}")

    def gently(self, script):
        """A script that may meet a page that is just going."""
        try:
            return self.run(script)
        except Refused:
            return None

    # What the machine is like.

    def command(self, method, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": method, "params": parameters})

    def size(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme="light", motion="no-preference"):
        features = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}]
        self.command("Emulation.setEmulatedMedia", media="", features=features)

    def scripts(self, on):
        self.command("Emulation.setScriptExecutionDisabled", value=not on)

    def zone(self, name):
        """Where the person is; empty: where this machine is."""
        self.command("Emulation.setTimezoneOverride", timezoneId=name)

    def policy(self, on):
        """Whether the content security policy of pages counts."""
        self.command("Page.enable")
        self.command("Page.setBypassCSP", enabled=not on)

    def cookie(self, name, value, url):
        self.command("Network.setCookie", name=name, value=value, url=url)

    def forget(self):
        self.command("Network.clearBrowserCookies")

    def problems(self):
        """What the console has said since it was asked last: errors of scripts and what the policy has refused."""
        lines = self.ask("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] == "SEVERE"]

    def picture(self, path, most=6000):
        """The page as a PNG, at most so high."""
        script = "const e = document.documentElement; return [e.clientWidth, Math.min(e.scrollHeight, arguments[0])]"
        size = self.run(script, most)
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
