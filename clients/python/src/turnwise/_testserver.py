"""A server of Turnwise in memory, for tests: one queue discipline, first come first served, and the whole protocol for workers.

It is strict where the real one is: unknown fields, wrong fences and foreign ids are refused. It can be told to lose answers.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from . import _ids, _span

if TYPE_CHECKING:
    from typing_extensions import Self

ENDED = ("success", "failed", "cancelled")


@dataclass(frozen=True)
class Fault:
    """What happens to a request instead of an answer."""

    #: ``lose``: it is done, and the answer is lost. ``refuse``: the connection breaks before it is done. ``double``: it is done twice, and the
    #: second answer is given. ``status``: it is not done, and this is the answer.
    kind: str
    status: int = 503
    retry_after: int | None = None


class _Problem(Exception):
    def __init__(self, status: int, word: str, detail: str, path: str | None = None, job: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.retry_after = status, retry_after
        self.said: dict[str, Any] = {"type": f"urn:turnwise:{word}", "title": word, "status": status, "detail": detail}
        if path is not None:
            self.said["errors"] = [{"path": path, "message": detail}]
        if job is not None:
            self.said["job"] = job


@dataclass
class _Job:
    id: str
    request: dict[str, Any]
    task: str
    args: Any
    submitted: float
    due: float
    state: str = "waiting"
    fence: int = 0
    node: str | None = None
    #: When it was given to the worker, which counts as its beginning.
    delivered: float | None = None
    attempt: int = 0
    retries: int = 0
    result: Any = None
    error: str | None = None
    cancel: bool = False
    steps: dict[str, Any] = field(default_factory=dict)
    lines: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    progress: dict[str, Any] | None = None
    #: How each run ended: the fence, the outcome, and whether it had begun.
    runs: list[tuple[int, str, bool]] = field(default_factory=list)
    settled: dict[int, str] = field(default_factory=dict)


@dataclass
class _Node:
    id: str
    token: str | None
    said: dict[str, Any]
    slots: int
    lease: float
    until: float
    lost: bool = False
    beats: int = 0
    takes: int = 0


class Server:
    """Listens on a free port of this machine: ``with Server() as server: Worker(server.url, tasks=[…])``.

    - `fault` is asked about each request, by its verb (``register``, ``take``, ``beat``, ``note``, ``settle``, ``leave``, ``submit``, ``job``)
      and how many of its kind came before; what it returns happens instead of an answer.
    - `lease` and `grace` hold whatever a worker asks for, and bodies have `most_bytes`.
    - `limited` are tasks whose jobs a limit counts.
    """

    def __init__(
        self, *, fault: Callable[[str, int], Fault | None] | None = None, limited: Iterable[str] = (), grace: float = 2.0, token: str | None = None,
        lease: float | None = None, most_bytes: int = 32 * 1024 * 1024,
    ) -> None:  # fmt: skip
        self.fault = fault
        self.limited = set(limited)
        self.grace = grace
        self.token = token
        self.lease = lease
        self.most_bytes = most_bytes
        #: While it is set, no request is answered: each breaks off.
        self.away = False
        self.requests: list[tuple[str, Any]] = []
        self._counts: dict[str, int] = {}
        self._changed = threading.Condition()
        self._jobs: dict[str, _Job] = {}
        self._nodes: dict[str, _Node] = {}
        self._keys: dict[str, tuple[str, int, Any]] = {}
        self._stopping = False
        server = self

        class Handler(_Handler):
            home = server

        self._http = _Http(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    # For tests.

    def until(self, what: Callable[[], Any], seconds: float = 30.0) -> Any:
        """Waits until this holds; it is looked at whenever something changes."""
        with self._changed:
            held = self._changed.wait_for(what, seconds)
        if not held:
            raise AssertionError(f"it did not come to that within {seconds} s; jobs: {[(job.task, job.state, job.runs, job.error) for job in self._jobs.values()]}")
        return held

    def state(self, id: str) -> str:
        return self._jobs[id].state

    def runs(self, id: str) -> list[tuple[int, str, bool]]:
        """How each run of the job ended: the fence, the outcome, and whether its task had begun."""
        return self._jobs[id].runs

    def lines(self, id: str) -> list[str]:
        return [line["text"] for _, line in sorted(self._jobs[id].lines.items())]

    def workers(self) -> list[str]:
        """The ids of the workers that are alive."""
        with self._changed:
            self._look()
            return [node.id for node in self._nodes.values() if not node.lost]

    def slots(self) -> int:
        """The slots of all workers that are alive, as they said last."""
        return sum(node.slots for node in self._nodes.values() if not node.lost)

    def held(self) -> int:
        """How many jobs are in the hands of workers."""
        return sum(job.state in ("scheduled", "running") for job in self._jobs.values())

    def lose(self, worker: str) -> None:
        """As if nothing had been heard of the worker for a lease."""
        with self._changed:
            self._nodes[worker].until = 0.0
            self._look()

    def take_away(self, id: str) -> None:
        """As if a person had ended the job and started it again: it is the worker's no more, and may be given to it once more."""
        with self._changed:
            job = self._jobs[id]
            job.state, job.node, job.delivered = "waiting", None, None
            self._changed.notify_all()

    def count(self, verb: str) -> int:
        """How many requests of this kind have come."""
        return self._counts.get(verb, 0)

    # Requests.

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, token: str | None, headers: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.removeprefix("/api/v1").strip("/").split("/")]
        if self.token is not None and token != self.token:
            raise _Problem(401, "unauthorized", "a token is needed")
        with self._changed:
            self._look()
            try:
                if parts[0] == "workers":
                    return self._worker(parts[1:], body, token)
                return self._api(method, parts, query, body, headers)
            finally:
                self._changed.notify_all()

    @staticmethod
    def verb(method: str, path: str) -> str:
        parts = path.removeprefix("/api/v1").strip("/").split("/")
        if parts[0] == "workers":
            return "register" if len(parts) == 1 else parts[2]
        return "submit" if method == "POST" and len(parts) <= 2 else parts[2] if len(parts) > 2 else "job"

    def _api(self, method: str, parts: list[str], query: dict[str, str], body: Any, headers: Any) -> tuple[int, Any]:
        if parts == ["jobs"] and method == "POST":
            answer = self._once(headers.get("idempotency-key"), body, lambda: self._submit(body, {}))
            return (201 if answer["new"] else 200), answer
        if parts == ["jobs", "batch"]:
            names: dict[str, str] = {}
            return 201, self._once(headers.get("idempotency-key"), body, lambda: {"jobs": [self._submit(one, names) for one in body["jobs"]]})
        if parts == ["jobs"]:
            wanted = query.get("state", "").split(",") if "state" in query else None
            listed = [job for job in reversed(self._jobs.values()) if wanted is None or job.state in wanted]
            at = int(query.get("cursor", 0))
            page = listed[at : at + 2]
            return 200, {"jobs": [self._shown(job) for job in page], "next": str(at + 2) if at + 2 < len(listed) else None}
        job = self._jobs.get(parts[1]) if len(parts) > 1 else None
        if parts[0] != "jobs" or job is None:
            raise _Problem(404, "not-found", f"there is no {'/'.join(parts)}")
        if parts[2:] == ["cancel"]:
            if job.state in ENDED:
                raise _Problem(409, "conflict", f"job {job.id} has already ended as {job.state}")
            if job.state in ("scheduled", "running"):
                job.cancel = True
                return 200, {"id": job.id, "decided": "cancel_requested"}
            job.state = "cancelled"
            return 200, {"id": job.id, "decided": "cancelled"}
        if parts[2:] == ["log"]:
            lines = [{"at": line["time"], "level": line["level"], "run": at[0], "line": at[1], "text": line["text"]} for at, line in sorted(job.lines.items())]
            return 200, {"lines": lines, "dropped": 0, "next": None}
        if "wait" in query:
            self._wait(_span.seconds(query["wait"]), lambda: job.state in ENDED)
        return 200, self._shown(job)

    def _once(self, key: str | None, body: Any, do: Callable[[], Any]) -> Any:
        if key is None:
            return do()
        said = json.dumps(body, sort_keys=True)
        if key in self._keys and self._keys[key][0] != said:
            raise _Problem(422, "idempotency", "this key was used with another body")
        if key not in self._keys:
            self._keys[key] = (said, 201, do())
        return self._keys[key][2]

    def _submit(self, said: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
        _known(said, {
            "task", "args", "id", "queue", "group", "key", "priority", "in", "at", "retry", "timeout", "expires", "unique", "unique_by_args",
            "unique_scope", "unique_for", "on_duplicate", "as", "after", "on_failure", "on_exhausted", "next", "traceparent", "tracestate",
        })  # fmt: skip
        priority = said.get("priority", 5)
        if isinstance(priority, int) and not 1 <= priority <= 10:
            raise _Problem(422, "invalid", f"priority: must be 1 (first) to 10 (last), not {priority}", "/priority")
        id = said.get("id") or _ids.new()
        if int(id.replace("-", "")[:12], 16) / 1_000 > time.time() + 60:
            raise _Problem(422, "invalid", "id: is more than a minute ahead of the server's time", "/id")
        if id in self._jobs:
            return {"id": id, "new": False, "duplicate": None}
        if "unique" in said:
            holder = next((job for job in self._jobs.values() if job.request.get("unique") == said["unique"] and job.state not in ENDED), None)
            if holder is not None:
                if said.get("on_duplicate") == "reject":
                    raise _Problem(409, "conflict", f"unique key {said['unique']!r} is held by job {holder.id}", "/unique", holder.id)
                return {"id": holder.id, "new": False, "duplicate": "kept"}
        now = time.time()
        due = now + _span.seconds(said["in"]) if "in" in said else now
        if "at" in said:
            due = datetime.fromisoformat(said["at"]).timestamp()
        after = said.get("after", [])
        said = {**said, "after": [names.get(one, one) for one in ([after] if isinstance(after, str) else after)]}
        names[said.get("as", id)] = id
        job = _Job(id, said, said["task"], said.get("args"), now, due)
        self._jobs[id] = job
        return {"id": id, "new": True, "duplicate": None}

    def _shown(self, job: _Job) -> dict[str, Any]:
        def at(moment: float | None) -> str | None:
            return None if moment is None else datetime.fromtimestamp(moment, timezone.utc).isoformat().replace("+00:00", "Z")

        return {
            "id": job.id, "task": job.task, "queue": job.request.get("queue", "default"), "group": job.request.get("group", "default"),
            "key": job.request.get("key"), "unique": job.request.get("unique"), "unique_scope": None, "unique_until": None,
            "priority": job.request.get("priority", 5), "state": job.state, "attempt": job.attempt, "retries_left": None, "args": job.args,
            "result": job.result, "error": job.error, "node": job.node, "submitted_at": at(job.submitted), "due_at": at(job.due),
            "assigned_at": None, "started_at": at(job.delivered), "finished_at": None, "retry": None, "timeout": None, "on_exhausted": None,
            "next": None, "expires_at": None, "fingerprint": None, "cancel_requested": job.cancel, "waits_for": [], "schedule": None,
            "traceparent": job.request.get("traceparent"), "progress": job.progress, "steps": job.steps,
        }  # fmt: skip

    # Workers.

    def _worker(self, parts: list[str], body: Any, token: str | None) -> tuple[int, Any]:
        if not parts:
            return 201, self._register(body, token)
        node = self._nodes.get(parts[0])
        if node is None and parts[1] == "leave":
            return 200, {"left": True}
        if node is not None and node.token != token:
            raise _Problem(404, "not-found", f"there is no worker {parts[0]}")
        if node is None or node.lost:
            raise _Problem(409, "lost", "this worker was lost; register anew")
        return 200, {"take": self._take, "beat": self._beat, "note": self._note, "settle": self._settle, "leave": self._leave}[parts[1]](node, body)

    def _register(self, said: dict[str, Any], token: str | None) -> dict[str, Any]:
        _known(said, {"protocol", "worker", "name", "language", "client", "slots", "buffer", "queues", "lease_ms", "tasks"})
        if said["protocol"] != 1:
            raise _Problem(422, "invalid", "protocol: this server knows 1", "/protocol")
        for name, facts in said["tasks"].items():
            _known(facts, {"retry", "timeout", "on_exhausted", "secret"}, f"/tasks/{name}")
        known = self._nodes.get(said.get("worker", ""))
        for node in self._nodes.values():
            if node is not known and not node.lost and node.said["name"] == said["name"]:
                raise _Problem(409, "conflict", f"a worker named {said['name']!r} is alive", retry_after=1)
        lease = self.lease or said.get("lease_ms", 30_000) / 1_000
        new = known or _Node(said.get("worker") or _ids.new(), token, said, said["slots"], lease, time.monotonic() + lease)
        self._nodes[new.id] = new
        ms = round(lease * 1_000)
        return {
            "worker": new.id, "protocol": 1, "lease_ms": ms, "beat_ms": ms // 3, "grace_ms": round(self.grace * 1_000),
            "queues": said.get("queues"), "tasks": list(said["tasks"]),
        }  # fmt: skip

    def _take(self, node: _Node, said: dict[str, Any]) -> dict[str, Any]:
        _known(said, {"n", "wait_ms", "held"})
        held = {(one["id"], one["fence"]) for one in said["held"]}
        node.takes += 1
        turn = node.takes
        answer: dict[str, Any] = {"jobs": [], "stop": []}

        def anything() -> bool:
            self._look()
            if node.lost or self._stopping or node.takes != turn:
                return True
            self._assign(node)
            missing = [job for job in self._jobs.values() if job.node == node.id and (job.id, job.fence) not in held][: said["n"]]
            answer["jobs"], answer["stop"] = missing, self._stops(node, held)
            return bool(missing or answer["stop"])

        self._wait(min(said["wait_ms"] / 1_000, 60), anything)
        if node.lost:
            raise _Problem(409, "lost", "this worker was lost; register anew")
        if node.takes != turn:
            return {"jobs": [], "stop": []}
        for job in answer["jobs"]:
            job.delivered = job.delivered or time.time()
            job.state = "running"
        answer["jobs"] = [self._given(job) for job in answer["jobs"]]
        return answer

    def _given(self, job: _Job) -> dict[str, Any]:
        said = {
            "id": job.id, "fence": job.fence, "task": job.task, "queue": job.request.get("queue", "default"),
            "group": job.request.get("group", "default"), "args": job.args, "attempt": job.attempt + 1, "limited": job.task in self.limited,
            "steps": job.steps,
        }  # fmt: skip
        timeout = self._timeout(job)
        if timeout is not None:
            said["timeout_ms"] = round(timeout * 1_000)
        if "traceparent" in job.request:
            said["traceparent"] = job.request["traceparent"]
        return said

    def _fact(self, job: _Job, name: str) -> Any:
        node = self._nodes.get(job.node or "")
        return job.request.get(name) or (node.said["tasks"].get(job.task, {}).get(name) if node else None)

    def _timeout(self, job: _Job) -> float | None:
        named = self._fact(job, "timeout")
        return None if named is None else _span.seconds(named)

    def _stops(self, node: _Node, held: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
        stops = []
        for id, fence in held:
            job = self._jobs.get(id)
            if job is None or job.node != node.id or job.fence != fence:
                over = job is not None and job.settled.get(fence) == "timed_out"
                stops.append({"id": id, "fence": fence, "reason": "timed_out" if over else "gone"})
            elif job.cancel:
                stops.append({"id": id, "fence": fence, "reason": "cancelled"})
        return stops

    def _beat(self, node: _Node, said: dict[str, Any]) -> dict[str, Any]:
        _known(said, {"slots", "held"})
        node.slots, node.until = said["slots"], time.monotonic() + node.lease
        node.beats += 1
        return {"lease_ms": round(node.lease * 1_000), "stop": self._stops(node, [(one["id"], one["fence"]) for one in said["held"]])}

    def _note(self, node: _Node, said: dict[str, Any]) -> dict[str, Any]:
        _known(said, {"notes"})
        answers = []
        for at, note in enumerate(said["notes"]):
            _known(note, {"id", "fence", "progress", "lines", "steps"}, f"/notes/{at}")
            job = self._jobs.get(note["id"])
            answer = "stale"
            if job is not None and job.node == node.id and job.fence == note["fence"]:
                answer = "applied"
                for line in note.get("lines", []):
                    _known(line, {"number", "level", "text", "time"})
                    job.lines.setdefault((job.fence, line["number"]), line)
                job.progress = note.get("progress", job.progress)
                for step in note.get("steps", []):
                    _known(step, {"name", "result"})
                    job.steps.setdefault(step["name"], step["result"])
            answers.append({"id": note["id"], "fence": note["fence"], "answer": answer})
        return {"notes": answers}

    def _settle(self, node: _Node, said: dict[str, Any]) -> dict[str, Any]:
        _known(said, {"ends"})
        named = [(end["id"], end["fence"]) for end in said["ends"]]
        if len(set(named)) < len(named) or len(named) > 1_000:
            raise _Problem(422, "invalid", "ends: at most 1,000, and no job twice", "/ends")
        answers = []
        for at, end in enumerate(said["ends"]):
            _known(end, {"id", "fence", "ran_ms", "outcome"}, f"/ends/{at}")
            answers.append({"id": end["id"], "fence": end["fence"], **self._end(node, end)})
        return {"ends": answers}

    def _end(self, node: _Node, end: dict[str, Any]) -> dict[str, Any]:
        job, how = self._jobs.get(end["id"]), end["outcome"]["outcome"]
        if job is None:
            return {"answer": "gone"}
        if job.settled.get(end["fence"]) == how:
            return {"answer": "applied", "state": job.state}
        if job.node != node.id or job.fence != end["fence"]:
            return {"answer": "stale"}
        if "\0" in json.dumps(end).replace("\\u0000", "\0"):
            end = {**end, "outcome": {"outcome": "fail", "error": "a text with NUL cannot be stored"}}
            self._decide(job, end["outcome"], "ran_ms" in end)
            return {"answer": "invalid", "detail": "a text with NUL cannot be stored"}
        self._decide(job, end["outcome"], "ran_ms" in end)
        return {"answer": "applied", "state": job.state}

    def _decide(self, job: _Job, said: dict[str, Any], begun: bool) -> None:
        how = said["outcome"]
        job.runs.append((job.fence, how, begun))
        job.settled[job.fence] = how
        now, state = time.time(), "waiting"
        if how in ("error", "timed_out"):
            job.error = said.get("error", "timed out")
            waits = _waits(self._fact(job, "retry") or "exponential:10s,5")
            job.attempt += 1
            state = "stuck" if job.retries < len(waits) else "failed"
            if state == "stuck":
                job.due = now + waits[job.retries]
                job.retries += 1
        elif how == "fail":
            job.attempt += 1
            job.error, state = said["error"], "failed"
        elif how == "done":
            job.attempt += 1
            job.result, state = said.get("result"), "success"
        elif how == "snooze":
            job.due = now + _span.seconds(said["for"])
        elif how == "next":
            _known(said["job"], {"task", "args", "in", "at", "retry", "timeout", "on_exhausted"})
            job.task, job.args, job.steps = said["job"]["task"], said["job"].get("args"), {}
            job.due = now + _span.seconds(said["job"].get("in", "0s"))
        elif how == "cancelled":
            state = "cancelled"
        if job.cancel and state != "failed":
            state = "cancelled"
        job.state, job.node, job.delivered = state, None, None

    def _leave(self, node: _Node, said: dict[str, Any]) -> dict[str, Any]:
        _known(said, {"back", "held"})
        back = {(one["id"], one["fence"]) for one in said["back"]}
        runs = {(one["id"], one["fence"]) for one in said["held"]} if "held" in said else None
        mine = [job for job in self._jobs.values() if job.node == node.id]
        for job in mine:
            if (job.id, job.fence) in back or job.delivered is None or runs is not None and (job.id, job.fence) not in runs:
                job.state, job.node, job.delivered = "waiting", None, None
        held = sum(job.node == node.id for job in mine)
        if held:
            return {"left": False, "held": held}
        node.lost = True
        del self._nodes[node.id]
        return {"left": True}

    # What happens by itself. Called with the lock held.

    def _wait(self, seconds: float, what: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while not what() and not self._stopping and time.monotonic() < until:
            self._changed.wait(min(0.02, until - time.monotonic()))

    def _look(self) -> None:
        now = time.monotonic()
        for node in self._nodes.values():
            if not node.lost and now > node.until:
                node.lost = True
                for job in self._jobs.values():
                    if job.node == node.id:
                        job.runs.append((job.fence, "lost", job.delivered is not None))
                        job.state, job.node, job.delivered = "waiting", None, None
                self._changed.notify_all()
        for job in self._jobs.values():
            timeout = self._timeout(job) if job.delivered is not None else None
            if timeout is not None and job.delivered is not None and time.time() > job.delivered + timeout + self.grace:
                self._decide(job, {"outcome": "timed_out"}, True)
                self._changed.notify_all()

    def _assign(self, node: _Node) -> None:
        room = node.slots + (node.said.get("buffer", 0) if node.slots else 0) - sum(job.node == node.id for job in self._jobs.values())
        for job in self._jobs.values():
            if room <= 0:
                return
            queues = node.said.get("queues")
            free = job.state in ("waiting", "stuck") and job.due <= time.time() and job.task in node.said["tasks"]
            waits = any(self._jobs[other].state not in ENDED for other in job.request["after"])
            if free and not waits and (queues is None or job.request.get("queue", "default") in queues):
                job.state, job.node, job.fence = "scheduled", node.id, job.fence + 1
                room -= 1


def _known(said: Any, names: set[str], path: str = "") -> None:
    if not isinstance(said, dict):
        raise _Problem(422, "invalid", f"{path or 'the body'}: must be an object", path)
    for name in said:
        if name not in names:
            raise _Problem(422, "invalid", f"unknown name {name!r}; known are {', '.join(sorted(names))}", f"{path}/{name}")


def _waits(policy: str) -> list[float]:
    kind, _, rest = policy.partition(":")
    if kind == "durations":
        return [_span.seconds(one) for one in rest.split(",")]
    if kind == "exponential":
        unit, times = rest.split(",")
        return [_span.seconds(unit) * 2**n for n in range(int(times))]
    if kind == "manual":
        return [1e9]
    if kind == "none":
        return []
    raise _Problem(422, "invalid", f"retry: {policy!r} is no policy", "/retry")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A caller that goes away in the middle is what the tests are about; anything else is a mistake here.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    home: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        url = urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        verb = self.home.verb(self.command, url.path)
        number = self.home._counts.get(verb, 0)
        self.home._counts[verb] = number + 1
        fault = self.home.fault(verb, number) if self.home.fault is not None else None
        if self.home.away or self.home._stopping or (fault is not None and fault.kind == "refuse"):
            self.close_connection = True
            return
        if fault is not None and fault.kind == "status":
            self._say(fault.status, {"type": "urn:turnwise:fault", "title": "", "status": fault.status, "detail": "a fault of the test"}, fault.retry_after)
            return
        answer = self._done(verb, url.path, url.query, text)
        if fault is not None and fault.kind == "double":
            answer = self._done(verb, url.path, url.query, text)
        if fault is not None and fault.kind == "lose" or self.home.away or self.home._stopping:
            self.close_connection = True
            return
        self._say(*answer)

    def _done(self, verb: str, path: str, query: str, text: bytes) -> tuple[int, Any, int | None]:
        try:
            try:
                body = json.loads(text) if text else None
            except ValueError as error:
                raise _Problem(400, "malformed", f"the body is no JSON: {error}") from None
            if len(text) > self.home.most_bytes:
                raise _Problem(413, "too-large", f"the body has more than {self.home.most_bytes} bytes")
            self.home.requests.append((verb, body))
            del self.home.requests[:-10_000]
            token = re.sub("^Bearer ", "", self.headers.get("authorization") or "") or None
            queried = {name: values[0] for name, values in parse_qs(query).items()}
            return (*self.home.answer(self.command, path, queried, body, token, self.headers), None)
        except _Problem as problem:
            return problem.status, problem.said, problem.retry_after
        except (KeyError, TypeError, AttributeError) as error:
            return 422, {"type": "urn:turnwise:invalid", "title": "", "status": 422, "detail": f"{type(error).__name__}: {error}"}, None

    def _say(self, status: int, said: Any, retry_after: int | None = None) -> None:
        text = json.dumps(said).encode()
        try:
            self.send_response_only(status)
            self.send_header("date", formatdate(usegmt=True))
            self.send_header("content-type", "application/json" if status < 400 else "application/problem+json")
            self.send_header("content-length", str(len(text)))
            if retry_after is not None:
                self.send_header("retry-after", str(retry_after))
            self.end_headers()
            self.wfile.write(text)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass
