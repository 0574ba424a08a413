from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import BINARY, RealServer, speaks_the_protocol

from turnwise import Turnwise
from turnwise.testing import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server in memory."""
    with Server() as one:
        yield one


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """`turnwise serve`, the same one for all tests that only need some server: their jobs have names of their own."""
    if BINARY is None:
        pytest.skip("TURNWISE_BIN names no turnwise")
    # On PostgreSQL where the tests of the whole have one (`turnwise-testpg with …`).
    database = os.environ.get("TURNWISE_TEST_PG_URL")
    if database is not None:
        subprocess.run([BINARY, "--database", database, "migrate"], check=True, stdout=subprocess.DEVNULL)
    one = RealServer(tmp_path_factory.mktemp("server"), database=database, name=f"server-{os.getpid()}")
    try:
        yield one
    finally:
        one.stop()


@pytest.fixture(params=["in memory", "real"])
def url(request: pytest.FixtureRequest) -> str:
    """The address of a server: what a test does with it holds for both."""
    if request.param == "in memory":
        return str(request.getfixturevalue("server").url)
    return str(request.getfixturevalue("real_server").url)


@pytest.fixture
def workers_url(url: str, request: pytest.FixtureRequest) -> str:
    """The address of a server that speaks the protocol for workers."""
    if "in memory" not in request.node.name and not speaks_the_protocol(request.getfixturevalue("real_server")):
        pytest.fail("this turnwise has no routes for workers")
    return url


@pytest.fixture
def turnwise(url: str) -> Iterator[Turnwise]:
    with Turnwise(url) as one:
        yield one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
