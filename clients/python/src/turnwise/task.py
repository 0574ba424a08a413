"""Tasks: the functions that jobs name."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, overload

from . import _span
from ._span import Span
from .ctx import AsyncCtx, Ctx
from .job import Options, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

A = TypeVar("A")
R = TypeVar("R")


class Task(Generic[A, R]):
    """A function with its name and its facts. It can still be called as the function that it was.

    ``R`` is what the function returns: of an async function an awaitable.
    """

    def __init__(
        self, function: Callable[[Any, A], R], name: str, *, retry: str | None, timeout: Span | None,
        on_exhausted: str | Task[Any, Any] | None, secret: Iterable[str], stoppable: bool, decode: Callable[[Any], A] | None,
    ) -> None:  # fmt: skip
        self.function = function
        #: What jobs call it.
        self.name = name
        self.is_async = inspect.iscoroutinefunction(function)
        #: Whether it runs in a process of its own, which can be killed.
        self.stoppable = stoppable
        self.decode: Callable[[Any], A] | None = decode or _decoder(function)
        facts: dict[str, Any] = {
            "retry": retry,
            "timeout": None if timeout is None else _span.text(timeout),
            "on_exhausted": on_exhausted.name if isinstance(on_exhausted, Task) else on_exhausted,
            "secret": list(secret) or None,
        }
        #: As they are registered.
        self.facts = {fact: value for fact, value in facts.items() if value is not None}
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function
        if stoppable and self.is_async:
            raise TypeError(f"task {name!r}: an async function is stopped where it awaits; stoppable=True is for functions that are not async")
        if stoppable and "<locals>" in self.__qualname__:
            raise TypeError(f"task {name!r}: a stoppable task runs in a process of its own, which has to find it: define it at the top of a module")

    def __call__(self, ctx: Any, args: A) -> R:
        return self.function(ctx, args)

    def job(self, args: A, **options: Unpack[Options]) -> Request:
        """A job of this task, to be submitted."""
        return Request(self.name, args, options)

    def arguments(self, args: Any) -> A:
        """What the function gets for these arguments of a job."""
        return typing.cast(A, args) if self.decode is None else self.decode(args)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def __reduce__(self) -> str:
        # Another process finds it where it was defined.
        return self.__qualname__


def _decoder(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any] | None:
    """How the arguments become what the function wants: a dataclass is made from its fields, a model of pydantic validates, all else is as it is in JSON."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise TypeError(f"{function.__qualname__}: a task takes two parameters, the context and the arguments")
    annotation = function.__annotations__.get(parameters[1])
    if isinstance(annotation, str):
        annotation = _named(annotation, function)
    if not isinstance(annotation, type):
        return None
    if dataclasses.is_dataclass(annotation):
        made: Callable[..., Any] = annotation
        return lambda args: made(**args)
    return getattr(annotation, "model_validate", None)


def _named(annotation: str, function: Callable[..., Any]) -> Any:
    """What an annotation that is a text means, if it can be told: a class that is known only to type checkers has no decoder."""
    scope = dict(vars(sys.modules[function.__module__])) if function.__module__ in sys.modules else {}
    try:
        names = inspect.getclosurevars(function).nonlocals
        return eval(annotation, {**scope, **names})  # as typing.get_type_hints does, but for this one alone
    except Exception:
        return None


AsyncFunction = Callable[[AsyncCtx, A], Awaitable[R]]


class _Decorator:
    def __init__(self, name: str, facts: Mapping[str, Any]) -> None:
        self._name, self._facts = name, facts

    @overload
    def __call__(self, function: Callable[[AsyncCtx, A], Awaitable[R]]) -> Task[A, Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[[Ctx, A], R]) -> Task[A, R]: ...
    def __call__(self, function: Union[Callable[[AsyncCtx, A], Any], Callable[[Ctx, A], Any]]) -> Task[A, Any]:
        return Task(function, self._name, **self._facts)


def task(
    name: str, *, retry: str | None = None, timeout: Span | None = None, on_exhausted: str | Task[Any, Any] | None = None,
    secret: Iterable[str] = (), stoppable: bool = False, decode: Callable[[Any], Any] | None = None,
) -> _Decorator:  # fmt: skip
    """Makes a task of a function: ``@task("send") def send(ctx, args): …``, sync or async.

    `retry`, `timeout` and `on_exhausted` hold for jobs that name none of their own. `secret` are JSON pointers of arguments that are hidden
    wherever jobs are shown. A function that is not async runs in a thread, which cannot be stopped: with `stoppable` it runs in a process of
    its own, which is killed when its job is cancelled, over time, or perhaps given to another worker, and it does not stop by itself.
    `decode` makes of the arguments what the function wants; for a dataclass or a model of pydantic its annotation is enough.
    """
    return _Decorator(name, {"retry": retry, "timeout": timeout, "on_exhausted": on_exhausted, "secret": secret, "stoppable": stoppable, "decode": decode})
