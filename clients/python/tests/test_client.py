"""Submitting, reading, waiting, cancelling: at a server in memory, and at a real one."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest
from turnwise import AsyncTurnwise, Conflict, Ctx, Invalid, NotFound, Request, Turnwise, Unreachable, _ids, task
from turnwise.testing import Fault, Server


@dataclass
class Letter:
    to: str


@task("client-send")
def send(ctx: Ctx, args: Letter) -> None: ...


def name(what: str) -> str:
    return f"{what}-{uuid.uuid4()}"


def test_a_job_is_stored_with_what_was_said_about_it(turnwise: Turnwise) -> None:
    group = name("acme")
    told = turnwise.submit("client-noop", {"to": "ann"}, group=group, queue="client", priority=3, delay="1h", traceparent=TRACE)
    assert (told.new, told.duplicate) == (True, None)
    job = turnwise.job(told.id)
    assert (job.task, job.args, job.group, job.queue, job.priority, job.state) == ("client-noop", {"to": "ann"}, group, "client", 3, "waiting")
    assert job.traceparent == TRACE
    assert job.due_at is not None and job.due_at - job.submitted_at > timedelta(minutes=59)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_job_may_be_made_by_its_task_with_typed_arguments(turnwise: Turnwise) -> None:
    told = turnwise.submit(send.job(Letter("ann"), delay=timedelta(hours=1)))
    job = turnwise.job(told.id)
    assert (job.task, job.args) == ("client-send", {"to": "ann"})
    other = turnwise.submit(send, Letter("bob"), at=datetime.now(timezone.utc) + timedelta(days=1))
    assert turnwise.job(other.id).args == {"to": "bob"}


def test_many_jobs_are_stored_together_and_may_wait_for_one_another(turnwise: Turnwise) -> None:
    first, second = turnwise.submit_all([
        Request("client-noop", None, {"as_": "first", "delay": "1h"}),
        Request("client-noop", None, {"after": ["first"], "on_failure": "run"}),
    ])  # fmt: skip
    assert first.new and second.new and first.id != second.id
    with pytest.raises(Invalid) as refused:
        turnwise.submit_all([Request("client-noop"), Request("client-noop", None, {"priority": 11})])
    assert "/priority" in refused.value.errors[0].path


def test_a_unique_key_is_held_by_one_job(turnwise: Turnwise) -> None:
    key = name("account")
    first = turnwise.submit("client-noop", unique=key, delay="1h")
    again = turnwise.submit("client-noop", unique=key)
    assert (again.id, again.new, again.duplicate) == (first.id, False, "kept")
    with pytest.raises(Conflict) as refused:
        turnwise.submit("client-noop", unique=key, on_duplicate="reject")
    assert refused.value.job == first.id


def test_a_wrong_value_is_named_with_its_place(turnwise: Turnwise) -> None:
    with pytest.raises(Invalid) as refused:
        turnwise.submit("client-noop", priority=11)
    assert (refused.value.status, refused.value.type) == (422, "urn:turnwise:invalid")
    assert refused.value.errors[0].path == "/priority"
    with pytest.raises(TypeError, match="no option 'prioritty'"):
        turnwise.submit("client-noop", prioritty=3)  # type: ignore[call-arg]


def test_a_job_that_is_not_there_is_not_found(turnwise: Turnwise) -> None:
    with pytest.raises(NotFound):
        turnwise.job(str(_ids.new()))


def test_a_waiting_job_is_cancelled_at_once_and_its_waiters_hear_of_it(turnwise: Turnwise) -> None:
    id = turnwise.submit("client-noop", delay="1h").id
    with pytest.raises(TimeoutError):
        turnwise.wait(id, 0.05)
    assert turnwise.cancel(id) == "cancelled"
    assert turnwise.wait(id, 30).state == "cancelled"


def test_an_idempotency_key_makes_two_calls_one(turnwise: Turnwise) -> None:
    key = name("order")
    first = turnwise.submit("client-noop", {"n": 7}, idempotency_key=key, delay="1h")
    assert turnwise.submit("client-noop", {"n": 7}, idempotency_key=key, delay="1h").id == first.id
    with pytest.raises(Invalid):
        turnwise.submit("client-noop", {"n": 8}, idempotency_key=key, delay="1h")


def test_jobs_are_listed_page_by_page(turnwise: Turnwise) -> None:
    group = name("listed")
    ids = [turnwise.submit("client-noop", group=group, delay="1h").id for _ in range(5)]
    found = [job.id for job in turnwise.jobs(state=["waiting", "stuck"], group=group, limit=2) if job.group == group]
    assert found == ids[::-1]


def test_async_code_has_the_same_calls(url: str) -> None:
    async def calls() -> None:
        async with AsyncTurnwise(url) as turnwise:
            told = await turnwise.submit("client-noop", {"n": 1}, delay="1h")
            assert (await turnwise.job(told.id)).args == {"n": 1}
            pair = await turnwise.submit_all([Request("client-noop", None, {"delay": "1h"})] * 2)
            assert len({one.id for one in pair}) == 2
            waiter = asyncio.create_task(turnwise.wait(told.id, 60))
            assert await turnwise.cancel(told.id) == "cancelled"
            assert (await waiter).state == "cancelled"
            assert await turnwise.log(told.id) == []
            assert [job.id async for job in turnwise.jobs(state="cancelled")][:1]

    asyncio.run(calls())


def test_a_submit_whose_answer_was_lost_is_repeated_and_stored_once() -> None:
    with Server(fault=lambda verb, n: Fault("lose") if verb == "submit" and n < 2 else None) as server, Turnwise(server.url) as turnwise:
        told = turnwise.submit("client-noop")
        assert told.new, "its own first try is no other job"
        assert [job.id for job in turnwise.jobs()] == [told.id]
        pair = turnwise.submit_all([Request("client-noop"), Request("client-noop")])
        assert all(one.new for one in pair)
        assert server.count("submit") == 4


def test_a_busy_server_is_asked_again_and_an_absent_one_given_up() -> None:
    busy = [Fault("status", 503), Fault("status", 429, 0), Fault("refuse")]
    with Server(fault=lambda verb, n: busy[n] if n < len(busy) else None) as server:
        with Turnwise(server.url) as turnwise:
            assert turnwise.submit("client-noop").new
        server.away = True
        with Turnwise(server.url, retry_for=0.2) as turnwise, pytest.raises(Unreachable):
            turnwise.submit("client-noop")


def test_a_clock_that_is_ahead_keeps_no_one_from_submitting(monkeypatch: pytest.MonkeyPatch) -> None:
    # The server's clock is an hour behind: ids by this machine's are refused until its answer says so.
    monkeypatch.setattr(_ids, "new", lambda offset=0.0, made=_ids.new: made(offset + 3_600))
    with Server() as server, Turnwise(server.url) as turnwise:
        monkeypatch.setattr("turnwise.client.ahead", lambda response, now: -3_600.0)
        assert turnwise.submit("client-noop").new
        assert turnwise.submit("client-noop").new
        assert server.count("submit") == 3, "from the first refusal on the server's time is known"


def test_ids_grow_in_the_order_they_are_made_and_are_of_version_7() -> None:
    made: list[str] = []
    lock = threading.Lock()

    def make() -> None:
        mine = [_ids.new() for _ in range(5_000)]
        assert mine == sorted(mine)
        with lock:
            made.extend(mine)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 20_000
    one = uuid.UUID(made[-1])
    assert (one.version, one.variant) == (7, uuid.RFC_4122)
    assert abs((one.int >> 80) / 1_000 - time.time()) < 60


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://example.com", "another machine"),
        ("ftp://example.com", "not the address"),
        ("http://ann:secret@127.0.0.1", "give the token"),
    ],
)
def test_an_address_that_would_betray_a_token_is_refused(address: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        Turnwise(address, "tw_secret")
    assert "secret" not in str(refused.value)


def test_what_is_not_named_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, folder: object) -> None:
    from pathlib import Path

    file = Path(str(folder)) / "token"
    file.write_text("tw_from_a_file\n")
    with Server(token="tw_from_a_file") as server:
        monkeypatch.setenv("TURNWISE_SERVER", server.url)
        monkeypatch.setenv("TURNWISE_TOKEN", f"@{file}")
        with Turnwise() as turnwise:
            assert turnwise.submit("client-noop").new
