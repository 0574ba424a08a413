"""What several tests use: a real server, workers in threads and in processes, and waiting."""

from __future__ import annotations

import http.client
import itertools
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from turnwise import Task, Turnwise, Worker

#: Nothing takes as long on a machine that works; a test that waits so long fails.
PATIENCE = 60.0
BINARY = os.environ.get("TURNWISE_BIN")
HERE = Path(__file__).parent


class RealServer:
    """`turnwise serve` on a database in a folder of its own."""

    def __init__(self, folder: Path, port: int = 0, database: str | None = None, name: str = "server") -> None:
        assert BINARY is not None
        self._command = [BINARY, "--database", database or f"sqlite:{folder / 'jobs.db'}", "serve", "--name", name, "--listen"]
        self._folder = folder
        self.port = port
        self.start()

    def start(self) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("TURNWISE_")}
        self.process = subprocess.Popen(
            [*self._command, f"127.0.0.1:{self.port}"], cwd=self._folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "ready" in line, f"the server is not ready: {line!r}"
        self.url = "http://" + line.split("http://")[1].strip()
        self.port = int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def stop(self) -> None:
        self.process.terminate()
        self.close()

    def close(self) -> None:
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


def speaks_the_protocol(server: RealServer) -> bool:
    """Whether the binary has routes for workers."""
    import httpx

    return httpx.post(f"{server.url}/api/v1/workers", json={}, trust_env=False).status_code != 404


def until(what: Callable[[], Any], name: str = "it", seconds: float = PATIENCE) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{name} did not come within {seconds} s")


@contextmanager
def working(url: str, *tasks: Task[Any, Any], **options: Any) -> Iterator[Worker]:
    """A worker in a thread of this process, stopped at the end."""
    worker = Worker(url, tasks=tasks, **{"stop_timeout": 5, **options})
    raised: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        assert worker.wait_until_registered(PATIENCE), f"the worker is not registered: {raised}"
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive(), "the worker does not stop"
    if raised:
        raise raised[0]


class WorkerProcess:
    """A program with a worker, in a process (and a process group) of its own."""

    def __init__(self, program: Path | str, *words: str, env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(program), *words], stdout=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        )  # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.pid = self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self.lines.put(line.strip())
        self.lines.put("")

    def line(self, wanted: str) -> str:
        """The next line with this in it."""
        end = time.monotonic() + PATIENCE
        while True:
            line = self.lines.get(timeout=max(0.1, end - time.monotonic()))
            assert line, f"the process ended before it printed {wanted!r}"
            if wanted in line:
                return line

    def send(self, kind: signal.Signals) -> None:
        self._process.send_signal(kind)

    def send_all(self, kind: signal.Signals) -> None:
        """To the worker and all processes that it has started."""
        os.killpg(self.pid, kind)

    def wait(self) -> int:
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        for kind in (signal.SIGCONT, signal.SIGKILL):
            try:
                self.send_all(kind)
            except ProcessLookupError:
                pass
        self._process.wait()
        self._reader.join(PATIENCE)


def group_of(pid: int) -> list[int]:
    """The processes of this group that live. Linux alone."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, group = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:3]
            except OSError:
                continue
            if int(group) == pid and state != "Z":
                found.append(int(entry.name))
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def client(url: str, **options: Any) -> Turnwise:
    return Turnwise(url, **options)


class Alternating:
    """A proxy that moves each request to the other server than the last; one that does not answer is passed over, as a load balancer does it."""

    def __init__(self, *servers: RealServer) -> None:
        self._servers = servers
        self._turn = itertools.count()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                answer = proxy.ask(self.command, self.path, body)
                if answer is None:
                    self.close_connection = True
                    return
                status, kind, text = answer
                self.send_response_only(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, str, bytes] | None:
        first = next(self._turn)
        for at in range(len(self._servers)):
            port = self._servers[(first + at) % len(self._servers)].port
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE * 2)
            try:
                asked.connect()
            except OSError:
                asked.close()
                continue  # no server is there: nothing was asked
            try:
                asked.request(method, path, body or None, {"content-type": "application/json"} if body else {})
                answer = asked.getresponse()
                return answer.status, answer.headers.get("content-type", ""), answer.read()
            except (OSError, http.client.HTTPException):
                return None  # it may have been done
            finally:
                asked.close()
        return None

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
