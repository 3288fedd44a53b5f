"""Traces, as a real collector's receiver gets them: what is recorded, when, and what a collector costs that is away."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from deploy.stack.free_ports import free_port
from endpoints.gridftp.faults import Fault, FaultError, Kind
from endpoints.models import Endpoint
from identity.clock import moment
from identity.models import User
from tests.integration.cast import submit, take
from tests.integration.rest import Api
from tests.servers.otlp_collector import Collector, collecting
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.tasks import moves, task_spans
from transferapi.tasks.models import Task
from transferapi.tasks.worker import slice_end
from transferapi.traces import exporting, sdk, span_queue, spans, submissions
from transferapi.traces.span_queue import Sent, SpanQueue
from workers.engine.slice import SliceResult
from workers.slices import trace as slice_trace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_server")]

SECRET = "in-a-header-only-5f1c"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@pytest.fixture
def traced(collector: Collector) -> Iterator[Collector]:
    """Traces of this process go to the collector."""
    exporting.start(f"{collector.url}/v1/traces", {"X-Key": SECRET}, 1.0, kind="web", version="1")
    yield collector
    exporting.stop(0.0)


def the_task(task: Task) -> Task:
    return Task.objects.get(pk=task.pk)


@pytest.mark.own_interpreter
def test_off_it_loads_nothing_and_starts_no_thread() -> None:
    script = """
import os, sys, threading
os.environ["DJANGO_SETTINGS_MODULE"] = "transferapi.settings"
import django
django.setup()
import workers.runtime, transferapi.shell.server.main
from transferapi.rest.trace_requests import TraceRequests
from transferapi.tasks import trace_switch
from transferapi.traces import spans
trace_switch.begin("web")
# redis-py loads the metrics of the SDK by itself, where they are installed.
unwanted = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "google.protobuf", "transferapi.traces.sdk")
loaded = [name for name in sys.modules if name.startswith(unwanted)]
sys.exit(f"{loaded} {threading.active_count()}" if loaded or threading.active_count() > 1 or spans.is_on() else 0)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_task_that_ends_is_one_trace_from_the_request_on(
    traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    document = {
        "DATA_TYPE": "transfer",
        "submission_id": str(uuid.uuid4()),
        "source_endpoint": str(ep1.pk),
        "destination_endpoint": str(ep2.pk),
        "label": "secret label",
        "DATA": [{"source_path": "/secret/path", "destination_path": "/other"}],
    }
    answer = Api(alice).call("POST", "/transfer", document)
    task = Task.objects.get(pk=answer.body["task_id"])
    grant = take(task)
    trace = slice_trace.of(grant)
    assert trace is not None
    trace.leased(time.time_ns(), "host:1")
    with trace.step("session", "source"):
        pass
    with pytest.raises(FaultError), trace.step("session", "destination"):
        raise FaultError(Fault(Kind.TIMEOUT, raw="secret text of a server"))
    for _ in range(1000):
        with trace.work("verify", 1, 10):
            pass
    slice_end.fail(grant.task_id, grant.epoch, "EXPIRED", "secret description")
    trace.close(SliceResult.FAILED)
    task_spans.notified(task.pk, "mail", time.time_ns(), "SMTPServerDisconnected")
    eventually(lambda: traced.named("mail"))

    by_name = {one.name: one for one in traced.spans}
    assert len({one.trace for one in traced.spans}) == 1
    request, whole, turn = by_name["POST /v0.10/transfer"], by_name["task"], by_name["slice"]
    assert request.parent == ""
    assert request.facts["http.response.status_code"] == 202
    assert (whole.parent, turn.parent, by_name["mail"].parent) == (request.id, whole.id, whole.id)
    assert by_name["lease"].parent == whole.id
    assert by_name["verify"].parent == turn.id
    assert by_name["verify"].facts["waybill.pieces"] == 1000
    assert by_name["verify"].facts["waybill.bytes"] == 10_000
    assert [one.facts["error.type"] for one in traced.named("session") if one.failed] == ["TIMEOUT"]
    assert whole.facts["waybill.task"] == str(task.pk)
    assert (whole.failed, whole.facts["error.type"], whole.facts["waybill.slices"]) == (True, "EXPIRED", 1)
    ended = the_task(task).completion_time
    assert ended is not None
    assert whole.ended == task_spans.nanoseconds(ended)
    # Traces leave the service: nothing that a user or a server wrote is in them, and no secret.
    assert "secret" not in repr(traced.spans)
    assert SECRET not in repr(traced.spans)
    assert all(head["x-key"] == SECRET and head["path"] == "/v1/traces" for head in traced.headers)


def test_a_client_cannot_choose_the_trace_nor_whether_it_is_kept(
    traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    theirs = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    with submissions.request(theirs) as request:
        task = submit(alice, ep1, ep2)
        assert request.span is not None
        request.span.end()
    eventually(lambda: traced.spans)
    assert traced.spans[0].trace != "ab" * 16
    assert traced.spans[0].links == ("ab" * 16 + "-" + "cd" * 8,)
    assert traced.spans[0].trace in str(the_task(task).trace_context)
    spans._ratio = 0.0
    with submissions.request(theirs):
        assert the_task(submit(alice, ep1, ep2)).trace_context is None


@pytest.mark.parametrize("header", ["", "00", "ff-" + "ab" * 16 + "-" + "cd" * 8 + "-01", "00-" + "0" * 32 + "-" +
    "cd" * 8 + "-01", "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01-x", "\u0660" * 55, "x" * 100_000])  # fmt: skip
def test_a_header_that_is_none_is_left_out(
    traced: Collector, client: Client, alice: User, ep1: Endpoint, ep2: Endpoint, header: str
) -> None:
    with submissions.request(header) as request:
        submit(alice, ep1, ep2)
    assert request.span is not None
    assert request.span.link is None
    assert client.get("/v0.10/submission_id", headers={"traceparent": header}).status_code in (401, 403)


def test_a_submission_without_a_request_has_a_span_and_other_requests_have_none(
    traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    assert Api(alice).call("GET", "/submission_id").status == 200
    task = submit(alice, ep1, ep2)
    assert moves.cancel(alice, task.pk) is moves.CancelResult.CANCELED
    eventually(lambda: traced.named("task"))
    assert [one.name for one in traced.spans] == ["submit", "task"]
    assert traced.named("task")[0].parent == traced.named("submit")[0].id


def test_a_submission_that_is_rolled_back_has_no_span(
    traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    with transaction.atomic():
        submit(alice, ep1, ep2)
        transaction.set_rollback(True)
    submit(alice, ep1, ep2)
    eventually(lambda: traced.spans)
    time.sleep(1.5)
    assert [one.name for one in traced.spans] == ["submit"]


def test_a_lost_worker_leaves_no_span_without_one_above_it(
    traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task = submit(alice, ep1, ep2)
    first = slice_trace.of(take(task, "lost"))
    assert first is not None
    first.leased(time.time_ns(), "lost")
    with first.step("scan"):
        pass
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_lease SET expires_at = now() - interval '1 second'")
    grant = take(task, "next")
    second = slice_trace.of(grant)
    assert grant.taken_over
    assert second is not None
    second.leased(time.time_ns(), "next")
    slice_end.fail(grant.task_id, grant.epoch, "EXPIRED", "")
    second.close(SliceResult.FAILED)
    eventually(lambda: len(traced.named("slice")) == 2)
    eventually(lambda: traced.named("task"))
    known = {one.id for one in traced.spans} | {""}
    assert {one.parent for one in traced.spans} <= known
    lost, taken = sorted(traced.named("slice"), key=lambda one: one.facts["waybill.slice"])
    assert lost.facts["error.type"] == "worker lost"
    assert taken.facts["waybill.taken_over"] is True
    assert len({one.trace for one in traced.spans}) == 1


def test_a_task_of_another_version_has_no_trace_and_runs(
    traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task = submit(alice, ep1, ep2)
    for unread in (None, "", "not of this version"):
        Task.objects.filter(pk=task.pk).update(trace_context=unread)
        context = the_task(task).trace_context
        assert task_spans.span_of_task(task.pk, context) is None
    grant = take(task)
    trace = slice_trace.of(grant)
    assert trace is not None
    trace.leased(time.time_ns(), "w")
    with trace.step("scan"), trace.work("verify"):
        pass
    trace.close(SliceResult.FAILED)
    slice_end.fail(grant.task_id, grant.epoch, "EXPIRED", "")
    eventually(lambda: traced.named("submit"))
    assert [one.name for one in traced.spans] == ["submit"]
    Task.objects.filter(pk=task.pk).update(trace_context=None)
    assert slice_trace.of(grant.__class__(grant.task_id, 1, alice.pk, grant.spec, grant.accesses)) is None


def test_the_spans_of_a_task_are_bounded(traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = take(submit(alice, ep1, ep2))
    made: list[Any] = []
    spans.install(made.append, 1.0)
    for epoch in range(1, 5001):
        kind = type(grant)
        trace = slice_trace.of(
            kind(grant.task_id, epoch, alice.pk, grant.spec, grant.accesses, False, grant.trace_context)
        )
        assert trace is not None
        trace.leased(time.time_ns(), "w")
        for _ in range(100):
            with trace.step("session"):
                pass
            with trace.work("settle", 500):
                pass
        trace.close(SliceResult.RELEASED)
    detailed = sum(slice_trace.has_details(epoch) for epoch in range(1, 5001))
    assert detailed == slice_trace.DETAILED + 6
    assert len(made) == detailed * (slice_trace.STEPS + 3)


def test_batches_last_longer_and_longer(traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = take(submit(alice, ep1, ep2))
    made: list[Any] = []
    spans.install(made.append, 1.0)
    trace = slice_trace.of(grant)
    assert trace is not None
    for second in range(300):
        piece = slice_trace._Batch(second * 10**9, second * 10**9, 0.0, 1, 1)
        trace._note("files", piece.begun, piece)
    trace.close(SliceResult.RELEASED)
    files = [one for one in made if one.name == "files"]
    assert sum(one.attributes["waybill.files"] for one in files) == 300
    assert len(files) <= 7
    assert all(one.ended >= one.begun for one in files)


# ---- the collector


def test_spans_of_an_hour_ago_wait_for_nothing(collector: Collector) -> None:
    """They are sent as they end, not when the task does."""
    exporter = sdk.Exporter(f"{collector.url}/v1/traces", {}, "worker", "1")
    spans.install(exporter.record, 1.0)
    first = spans.first("submit")
    assert first is not None
    first.end()
    eventually(lambda: collector.spans)
    exporter.stop(1.0)
    spans.install(None, 0.0)


def test_an_outage_is_two_lines_and_costs_nobody_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    port = free_port()
    exporter = sdk.Exporter(f"http://127.0.0.1:{port}/v1/traces", {"X-Key": SECRET}, "web", "1")
    spans.install(exporter.record, 1.0)
    try:
        one = spans.first("submit")
        assert one is not None
        one.end()
        eventually(lambda: "does not take them" in caplog.text)
        begun = time.process_time()
        for _ in range(span_queue.MOST + 500):
            more = spans.first("submit")
            assert more is not None
            more.end()
        assert exporter.queue.take_counts()[1] >= 499
        assert len(exporter.queue._waiting) == span_queue.MOST
        assert time.process_time() - begun < 60
        with collecting(port) as collector:
            eventually(lambda: len(collector.spans) >= span_queue.MOST, seconds=90)
            eventually(lambda: "takes them again" in caplog.text)
    finally:
        exporter.stop(0.0)
        spans.install(None, 0.0)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2, lines
    assert "spans dropped: 5" in lines[1]
    assert SECRET not in caplog.text
    assert "127.0.0.1" not in caplog.text


@pytest.mark.parametrize("how", ["hangs", "silent", "drips"])
def test_a_collector_that_hangs_ends_with_the_process(how: str, collector: Collector) -> None:
    """The end of the process waits for the time that it is given, and no longer."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    collector.hangs = True
    address = collector.url if how == "hangs" else f"http://127.0.0.1:{port}"
    ended = threading.Event()

    def drip() -> None:
        sock, _ = listener.accept()
        with sock, contextlib.suppress(OSError):
            while not ended.wait(0.1):
                sock.sendall(b"H")

    dripping = threading.Thread(target=drip, daemon=True)
    if how == "drips":
        dripping.start()
    exporter = sdk.Exporter(f"{address}/v1/traces", {}, "web", "1")
    spans.install(exporter.record, 1.0)
    one = spans.first("submit")
    assert one is not None
    one.end()
    stopping = threading.Thread(target=exporter.stop, args=(0.5,))
    stopping.start()
    stopping.join(30)
    assert not stopping.is_alive()
    ended.set()
    if how == "drips":
        dripping.join()
    listener.close()
    spans.install(None, 0.0)


def test_the_end_of_a_process_sends_what_waits(traced: Collector, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    submit(alice, ep1, ep2)
    exporting.stop(20.0)
    assert [one.name for one in traced.spans] == ["submit"]


@pytest.mark.parametrize(
    ("status", "sent"),
    [(200, Sent.ACCEPTED), (400, Sent.REFUSED), (413, Sent.REFUSED), (401, Sent.AWAY), (404, Sent.AWAY),
     (500, Sent.AWAY), (503, Sent.AWAY), (302, Sent.AWAY)],
)  # fmt: skip
def test_what_an_answer_means(collector: Collector, monkeypatch: pytest.MonkeyPatch, status: int, sent: Sent) -> None:
    monkeypatch.setattr(sdk, "SECONDS", 1.0)
    with collecting() as elsewhere:
        collector.status, collector.location = status, f"{elsewhere.url}/v1/traces"
        assert sdk.Collector(f"{collector.url}/v1/traces", {"X-Key": SECRET}).send([]) is sent
        assert elsewhere.headers == []


def test_a_batch_that_is_refused_does_not_stop_the_others() -> None:
    seen: list[int] = []

    def send(batch: Any) -> Sent:
        seen.extend(batch)
        return Sent.REFUSED if 0 in batch else Sent.ACCEPTED

    queue: SpanQueue[int] = SpanQueue(send)
    queue.add(0)
    eventually(lambda: seen)
    queue.add(1)
    queue.stop(20.0)
    assert seen == [0, 1]
    assert queue.take_counts() == (1, 1)
    assert queue.take_counts() == (0, 0)


def test_a_span_after_a_pause_waits_for_no_other_one() -> None:
    seen: list[int] = []

    def send(batch: Any) -> Sent:
        seen.extend(batch)
        return Sent.ACCEPTED

    queue: SpanQueue[int] = SpanQueue(send)
    for number in range(3):
        queue.add(number)
        eventually(lambda: number in seen)  # noqa: B023 - it is called before the next round
        time.sleep(0.1)
    queue.stop(20.0)


def test_many_threads_lose_and_double_nothing() -> None:
    seen: list[int] = []

    def send(batch: Any) -> Sent:
        seen.extend(batch)
        return Sent.ACCEPTED

    queue: SpanQueue[int] = SpanQueue(send, most=100_000)

    def work(first: int) -> None:
        for number in range(first, first + 1000):
            queue.add(number)

    threads = [threading.Thread(target=work, args=(1000 * of,)) for of in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.stop(20.0)
    assert sorted(seen) == list(range(10_000))


def test_the_environment_of_others_changes_nothing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy, and the address of another collector."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert sdk.Collector(f"{collector.url}/v1/traces", {}).send([]) is Sent.ACCEPTED


def test_moments_are_exact() -> None:
    at = moment(None)
    assert abs(task_spans.nanoseconds(at) - at.timestamp() * 1e9) < 1000
