"""What the test cases share: one browser, one server with trouble, and where pictures go. `run` fills it in."""

import functools
import unittest

import scene
from driver import Browser, Driver
from table import Table

# Filled in by `run`.
turnwise = rows = axe = artefacts = database = None

_shared = {}


def driver():
    if "driver" not in _shared:
        _shared["driver"] = Driver()
    return _shared["driver"]


def browser():
    """The browser of all cases but those that need one of their own; as a new one."""
    if "browser" not in _shared:
        _shared["browser"] = Browser(driver())
    it = _shared["browser"]
    it.size(1280, 900)
    it.prefer()
    it.scripts(True)
    it.forget()
    return it


def site():
    """A server with trouble. Cases change what is theirs alone."""
    if "site" not in _shared:
        _shared["folder"] = scene.folder()
        _shared["site"] = scene.Site(turnwise, _shared["folder"].name, settings=scene.SETTINGS, options=["--name", "node"])
        _shared["jobs"] = scene.trouble(_shared["site"])
    return _shared["site"]


def jobs():
    site()
    return _shared["jobs"]


def table():
    return Table(rows, jobs())


def close():
    if "browser" in _shared:
        _shared["browser"].close()
    if "driver" in _shared:
        _shared["driver"].stop()
    if "site" in _shared:
        _shared["site"].stop()
        _shared["folder"].cleanup()


def each_page(test):
    """A test of every page of the table, one after the other; it gets the page's path in the table and its address."""

    @functools.wraps(test)
    def of_all(self):
        for path, address in table().shown():
            with self.subTest(page=path):
                test(self, path, address)

    return of_all


class Case(unittest.TestCase):
    """With a browser at hand."""

    maxDiff = None

    def setUp(self):
        self.browser = browser()

    def open(self, address, of=None):
        self.browser.go((of or site()).root + address)
