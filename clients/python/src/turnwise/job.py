"""Jobs: as they are asked for, and as they are."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypedDict, Union

from . import _span
from ._span import Span

if TYPE_CHECKING:
    from .task import Task

#: A job's state once it has ended.
ENDED = frozenset({"success", "failed", "cancelled"})


class Options(TypedDict, total=False):
    """What can be said about a job besides its task and its arguments. What is left out is as the server has it."""

    #: The queue: ``default`` unless given.
    queue: str
    #: Whom the job belongs to; fairness is between groups.
    group: str
    #: The limit key.
    key: str
    #: 1 (first) to 10 (last), ``"high"`` (3) or ``"low"`` (8); 5 unless given.
    priority: Union[int, str]
    #: Not before this long; not together with ``at``.
    delay: Span
    #: Not before this moment; a time without a zone is one of this machine's.
    at: datetime
    #: The retry policy, such as ``"exponential:10s,5"``.
    retry: str
    #: How long a run may take.
    timeout: Span
    #: If it has not begun after this long, it fails without having run.
    expires: Span
    #: The unique key: while another job holds it, that one stands for this.
    unique: str
    #: A unique key made from the task and its arguments.
    unique_by_args: bool
    #: ``task`` (unless given), ``queue``, ``group``, or a name of your own.
    unique_scope: str
    #: For how long the key is held: until the job has ended unless given.
    unique_for: Span
    #: ``keep``, ``reject`` or ``replace-args``.
    on_duplicate: str
    #: Which jobs it waits for: ids; in a call of many also names of ``as_``, or ``"*"`` for all others.
    after: Union[str, list[str]]
    #: What becomes of it if one of those fails: ``fail``, ``run`` or ``cancel``.
    on_failure: str
    #: What others of the same call name it.
    as_: str
    #: The task that it goes on as when its retries run out.
    on_exhausted: str
    #: The task that it goes on as after a success, with its result as arguments.
    next: str
    #: An id of the caller's choice: a UUID of version 7. This client makes one.
    id: str
    #: The trace that it belongs to (W3C). Inside a task it is the task's own unless given.
    traceparent: str
    tracestate: str


_SPANS = ("delay", "timeout", "expires", "unique_for")
_NAMES = {"delay": "in", "as_": "as"}


@dataclass
class Request:
    """A job to submit: ``Request("send", {"to": "ann"}, {"group": "acme"})``, or by its task: ``send.job({"to": "ann"}, group="acme")``."""

    task: str
    args: Any = None
    options: Options = field(default_factory=lambda: Options())

    def wire(self) -> dict[str, Any]:
        """As the server reads it."""
        said: dict[str, Any] = {"task": self.task, "args": plain(self.args)}
        for name, value in self.options.items():
            if name not in Options.__annotations__:
                raise TypeError(f"a job has no option {name!r}; known are {', '.join(Options.__annotations__)}")
            if value is None:
                continue
            if name in _SPANS:
                value = _span.text(value)  # type: ignore[arg-type]
            elif isinstance(value, datetime):
                value = value.astimezone(timezone.utc).isoformat()
            said[_NAMES.get(name, name)] = value
        return said


def plain(value: Any) -> Any:
    """The value as it is written as JSON: dataclasses and models of pydantic become objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def written(value: Any) -> str:
    """As JSON. ``TypeError`` or ``ValueError`` for what is none, such as NaN, a set, or half of a surrogate pair."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_inner)
    text.encode()
    return text


def _inner(value: Any) -> Any:
    inner = plain(value)
    if inner is value:
        raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
    return inner


@dataclass(frozen=True)
class Submitted:
    """What became of a submitted job."""

    #: The job that stands for it: itself, or the one that holds its unique key.
    id: str
    #: ``False``: another job stands for it, or an earlier call had stored it.
    new: bool
    #: How another job stands for it: ``kept``, ``replaced``, ``too_late`` or ``other_task``; ``None``: none does.
    duplicate: str | None = None


@dataclass(frozen=True)
class LogLine:
    """A line of a job's log."""

    at: datetime
    level: str
    text: str
    #: Which run wrote it: the number grows each time that the job is given out.
    run: int


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    done: int
    total: int
    text: str


@dataclass(frozen=True)
class Job:
    """A job as it was when the server answered."""

    id: str
    task: str
    #: ``waiting``, ``scheduled``, ``running``, ``stuck``, ``success``, ``failed`` or ``cancelled``.
    state: str
    queue: str
    group: str
    priority: int
    #: Without secret fields.
    args: Any
    #: What the task returned.
    result: Any
    error: str | None
    attempt: int
    retries_left: int | None
    #: The node or worker that has it, or ran it last.
    node: str | None
    submitted_at: datetime
    due_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool
    traceparent: str | None
    progress: Progress | None
    #: The results of finished steps, by name.
    steps: dict[str, Any]
    #: All that the server said, also what this version does not know.
    raw: dict[str, Any] = field(repr=False)

    @property
    def ended(self) -> bool:
        """Whether it is over: ``success``, ``failed`` or ``cancelled``."""
        return self.state in ENDED

    @staticmethod
    def read(said: dict[str, Any]) -> Job:
        progress = said.get("progress")
        return Job(
            id=said["id"], task=said["task"], state=said["state"], queue=said["queue"], group=said["group"],
            priority=said["priority"], args=said["args"], result=said["result"], error=said["error"], attempt=said["attempt"],
            retries_left=said["retries_left"], node=said["node"], submitted_at=moment(said["submitted_at"]),
            due_at=_perhaps(said["due_at"]), started_at=_perhaps(said["started_at"]), finished_at=_perhaps(said["finished_at"]),
            cancel_requested=said["cancel_requested"], traceparent=said["traceparent"],
            progress=progress and Progress(progress["done"], progress["total"], progress["text"]),
            steps=said.get("steps") or {}, raw=said,
        )  # fmt: skip


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _perhaps(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


def request(job: Request | Task[Any, Any] | str, args: Any, options: Options) -> Request:
    """The request for what a caller of ``submit`` named."""
    if isinstance(job, Request):
        if args is not None or options:
            raise TypeError("a Request has its arguments and options already")
        return job
    return Request(job if isinstance(job, str) else job.name, args, options)
