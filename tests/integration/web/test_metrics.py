"""`/metrics`, from a real web server with two processes, PostgreSQL and Redis."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import InternalError, connection, transaction
from django.test import Client, override_settings
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from deploy.stack.child import command_of
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.gridftp.agent.tunnel.multiplexer import Ended
from endpoints.gridftp.agent.tunnel.sign_in import Refused
from endpoints.gridftp.faults import Fault, Kind
from endpoints.models import Endpoint
from endpoints.sharing.access import Access
from identity import audit, tokens
from identity.models import Credential, User
from tests import hostile_certificates as grid
from tests.integration.cast import submit, take
from tests.integration.web.web_server import web_server
from tests.store_connections import close_connections
from tests.waiting import children_of, eventually
from transferapi.config import ConfigError, load
from transferapi.rest.metrics import exposition
from transferapi.rest.metrics.exposition import Sampler
from transferapi.rest.metrics.families import FAMILIES, OF_DATABASE
from transferapi.tasks.models import Tally
from transferapi.tasks.records import FaultedItem, FoundFile, SettledFile, Settlement
from transferapi.tasks.upkeep import figures, rounds, tallies, worker_processes
from transferapi.tasks.worker import scan_results
from workers import runtime
from workers.rounds import Ticker
from workers.sessions import address_gate
from workers.store import PostgresTaskStore

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_server")]

Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees the sample, or the tallies, of another one."""
    monkeypatch.setattr(exposition, "_sampler", Sampler(figures.read))
    tallies._counts.clear()
    yield
    tallies._counts.clear()


def parsed(text: str) -> Samples:
    """By name and the values of the labels, these in the order of the labels' names."""
    return {
        (one.name, tuple(value for _, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def scrape(port: int) -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        line.request("GET", "/metrics", headers={"Host": "10.1.2.3"})
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    finally:
        line.close()


def samples(client: Client) -> Samples:
    answer = client.get("/metrics", HTTP_HOST="10.1.2.3")
    assert (answer.status_code, answer["Content-Type"].split(";")[0]) == (200, "text/plain")
    return parsed(answer.content.decode())


def test_it_shows_what_the_database_knows(client: Client, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    take(submit(alice, ep1, ep2))
    submit(alice, ep1, ep2, now=timezone.now() - timedelta(hours=1))
    for _ in range(2):
        rounds.poll({name: rounds.Interval(2.0) for name in ("sweep", "of a newer version")})
    worker_processes.report("a:1", "a", {"sessions_warm": 3, "sessions_in_use": 1, "slices_running": 1})
    worker_processes.report("b:1", "b", {"sessions_warm": 4, "invented": 9})
    worker_processes.report("old:1", "old")
    Credential.objects.create(
        user=alice, bound_to="endpoint:x", kind="x509", subject="", stored_at=timezone.now(), key_id="", sealed=b"",
        expires_at=timezone.now() + timedelta(hours=30),
    )  # fmt: skip
    audit.record_refusal(None, "password")
    found = samples(client)
    assert found["waybill_database_answers", ()] == 1
    assert all(found["waybill_question_answered", (name,)] for name in figures.QUESTIONS)
    assert found["waybill_tasks", ("running", "transfer")] == 1
    assert found["waybill_tasks", ("queued", "transfer")] == 1
    assert 3590 < found["waybill_oldest_queued_seconds", ()] < 3700
    assert found["waybill_leases_held", ()] == 1
    assert found["waybill_workers", ()] == 3
    assert found["waybill_sessions_warm", ()] == 7
    assert found["waybill_credentials_expiring", ("1d",)] == 0
    assert found["waybill_credentials_expiring", ("7d",)] == 1
    assert found["waybill_sign_ins_last_hour", ("refused",)] == 1
    assert found["waybill_round_overdue_seconds", ("sweep",)] == 0
    assert found["waybill_round_overdue_seconds", ("of a newer version",)] == 0
    described = {one.key for one in OF_DATABASE}
    assert described == figures.read()[0].keys()


def test_the_size_of_each_table_is_shown_and_of_no_other(client: Client) -> None:
    """The set of tables is that of the code: nobody adds a series by a name."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE of_another_program (id int)")
    try:
        found = samples(client)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE of_another_program")
    tables = {labels for name, labels in found if name == "waybill_table_bytes"}
    assert tables == {(model._meta.db_table,) for model in apps.get_models(include_auto_created=True)}
    assert tables == {labels for name, labels in found if name == "waybill_table_dead_rows"}
    assert found["waybill_database_bytes", ()] > found["waybill_table_bytes", ("tasks_task",)] > 0


def test_names_that_a_stranger_invents_are_no_series(client: Client) -> None:
    def ask(word: str) -> None:
        headers = {"User-Agent": word, "X-Request-Id": word, "Host": f"{word}.example.org"}
        for method, path in ((word.upper(), "/v0.10/task_list"), ("GET", f"/{word}"), ("GET", f"/v0.10/{word}/{word}")):
            client.generic(method, f"{path}?{word}={word}", headers=headers, REMOTE_ADDR="192.0.2.1")
            client.generic(method, f"/v0.10/task/{uuid.uuid4()}", headers=headers, REMOTE_ADDR="192.0.2.1")
        client.post("/signin", {"username": word, "password": word}, REMOTE_ADDR="192.0.2.1")

    ask("first")
    before = samples(client).keys()
    for number in range(5):
        ask(f"word{number}")
    assert samples(client).keys() - before == set()


def test_strangers_get_the_answer_of_an_unknown_path(client: Client) -> None:
    stranger = client.get("/metrics", REMOTE_ADDR="192.0.2.1")
    unknown = client.get("/metricz", REMOTE_ADDR="192.0.2.1")
    assert (stranger.status_code, unknown.status_code) == (404, 404)
    assert "waybill_" not in stranger.content.decode()
    assert client.post("/metrics").status_code == 405
    with override_settings(MONITORS=load({"WAYBILL_MONITORS": "192.0.2.0/24"}).monitors):
        assert client.get("/metrics", REMOTE_ADDR="192.0.2.1").status_code == 200
        # A front server that is not known cannot lend its address, and a client cannot write its own.
        assert client.get("/metrics", HTTP_X_FORWARDED_FOR="192.0.2.1").status_code == 404


def test_a_token_shows_the_metrics_to_any_address_and_nothing_else_does(client: Client, alice: User) -> None:
    token = "m" * 40
    with override_settings(METRICS_TOKEN=load({"WAYBILL_METRICS_TOKEN": token}).metrics_token):

        def status(shown: str, path: str = "/metrics") -> int:
            return client.get(path, REMOTE_ADDR="192.0.2.1", headers={"Authorization": shown}).status_code

        assert (status(f"Bearer {token}"), status(f"bearer {token}")) == (200, 200)
        wrong = ("", token, "Bearer ", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Basic {token}", "Bearer \xff")
        assert {status(shown) for shown in (*wrong, f"Bearer {tokens.issue(alice)}")} == {404}
        # It opens no other door.
        assert status(f"Bearer {token}", "/v0.10/submission_id") == 401
        found = client.get("/readyz", REMOTE_ADDR="192.0.2.1", headers={"Authorization": f"Bearer {token}"}).json()
        assert "checks" in found
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.1", headers={"Authorization": "Bearer "}).status_code == 404


def test_a_short_token_of_metrics_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="WAYBILL_METRICS_TOKEN"):
        load({"WAYBILL_METRICS_TOKEN": "short"})


def test_workers_tally_files_and_faults(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = take(submit(alice, ep1, ep2))
    store = PostgresTaskStore(grant, kinds=("ftp", "agent"))
    [item] = scan_results.unscanned(grant.task_id, grant.epoch, 10)
    fault = FaultedItem(item, Fault(Kind.TIMEOUT), timezone.now() + timedelta(seconds=9))
    try:
        asyncio.run(store.items_faulted([fault, fault]))
    finally:
        close_connections()
    tallies.add("bytes", "ftp", "agent", by=2**40)
    tallies.flush()
    tallies.add("faults", "TIMEOUT")
    tallies.flush()
    tallies.flush()
    read = figures.read()[0]
    assert met(read["faults"]) == {("TIMEOUT",): 3.0}
    assert read["retries"] == {(): 2.0}
    assert read["bytes"] == {("ftp", "agent"): 2.0**40}
    # Rows of another version of the code.
    Tally.objects.create(key="invented a b", value=1)
    Tally.objects.create(key="faults a b", value=1)
    assert met(figures.read()[0]["faults"]) == {("TIMEOUT",): 3.0}


def met(values: figures.Values) -> figures.Values:
    """Without those that are there with 0 from the start."""
    return {labels: value for labels, value in values.items() if value}


def test_counters_of_each_kind_are_there_before_the_first_one_is_counted() -> None:
    """`increase()` over a series that begins with 1 is 0: the first internal error would raise no alert."""
    read = figures.read()[0]
    assert read["faults"] == {(kind.value,): 0.0 for kind in Kind}
    assert read["mail_failures"][("connection",)] == 0.0
    assert read["mails_given_up"] == {(): 0.0}
    for name, labels in figures.FROM_THE_START.items():
        assert set(read[name]) == {(label,) for label in labels}
    for kind, name, more in ((Ended, "relay_refused", set[str]()), (Refused, "agent_sign_ins", {"accepted"})):
        codes = {code for word, code in vars(kind).items() if word.isupper() and isinstance(code, str)}
        assert codes | more == set(figures.FROM_THE_START[name])


def test_use_of_resources_is_shown_by_role(postgres: Postgres, redis_server: Redis, tmp_path: Path) -> None:
    with web_server(postgres, redis_server, tmp_path, "--workers", "1") as port:

        def found() -> dict[tuple[str, tuple[str, ...]], float]:
            return parsed(scrape(port)[1])

        eventually(lambda: found().get(("waybill_processes", ("web",))) == 1)
        eventually(lambda: found().get(("waybill_processor_seconds_total", ("web",)), 0) > 0)
        read = found()
    assert read["waybill_memory_bytes", ("web",)] > 10 << 20
    assert 1 <= read["waybill_database_connections", ("web",)] <= 14
    assert read["waybill_database_connections_needed", ()] >= 14
    assert read["waybill_database_connections_used", ()] <= read["waybill_database_connections_allowed", ()]
    assert read["waybill_disk_free_bytes", ("home",)] > 0
    assert read["waybill_database_disk_full_total", ()] == 0
    [build] = [labels for name, labels in read if name == "waybill_build_info"]
    assert platform.python_version() in build


def test_files_count_once_and_faults_of_endpoints_count(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = take(submit(alice, ep1, ep2))
    store = PostgresTaskStore(grant, kinds=("ftp", "agent"))
    items = scan_results.unscanned(grant.task_id, grant.epoch, 10)
    found = [(item, FoundFile(item.source_path, item.destination_path, 5, None)) for item in items]
    rows = scan_results.file_items_scanned(grant.task_id, grant.epoch, found)
    batch = Settlement(settled=[SettledFile(row, row.size) for row in rows])

    async def work() -> None:
        await store.write(batch)
        await store.write(batch)
        await store.endpoint_failed(Fault(Kind.CONNECT_FAILED), timezone.now() + timedelta(seconds=9))

    try:
        asyncio.run(work())
    finally:
        close_connections()
    tallies.flush()
    read = figures.read()[0]
    assert (read["files"], read["bytes"]) == ({("ftp", "agent"): 1.0}, {("ftp", "agent"): 5.0})
    assert (met(read["faults"]), read["retries"]) == ({("CONNECT_FAILED",): 1.0}, {(): 1.0})


def test_what_was_not_written_is_written_later() -> None:
    tallies.add("takeovers")
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
        try:
            with pytest.raises(InternalError, match="read-only"):
                tallies.flush()
        finally:
            cursor.execute("SET default_transaction_read_only = off")
    tallies.flush()
    assert figures.read()[0]["takeovers"] == {(): 1.0}


def test_a_lost_worker_is_a_takeover(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    assert not take(task).taken_over
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_lease SET expires_at = now() - interval '1 second'")
    assert figures.read()[0]["leases_expired"] == {(): 1.0}
    assert take(task, "other").taken_over


def test_a_worker_reports_its_numbers(monkeypatch: pytest.MonkeyPatch, alice: User, ep1: Endpoint) -> None:
    for module, name in ((gc, "freeze"), (gc, "set_threshold"), (sys, "setswitchinterval")):
        monkeypatch.setattr(module, name, lambda *_: None)  # they are for a process of its own
    assert runtime.gauges().keys() == {"clock_ahead"}  # no runtime of slices yet
    running = runtime.Runtime()
    try:
        monkeypatch.setattr(runtime, "_runtime", running)
        running.slices.add((uuid.uuid4(), 1))
        eventually(lambda: running.gauges)
        tallies.add("slices")
        Ticker()._report()
    finally:
        running.loop.call_soon_threadsafe(running.loop.stop)
        running._thread.join(60)
        running.loop.close()
    read = figures.read()[0]
    assert {name: read[name][()] for name in ("workers", *figures.OF_WORKERS)} == {
        "workers": 1, "sessions_warm": 0, "sessions_in_use": 0, "slices_running": 1, "streams_running": 0,
    }  # fmt: skip
    assert read["slices"] == {(): 1.0}
    assert (address_gate.kind(Access(ep1, ep1, alice.pk)), address_gate.kind(None)) == ("ftp", "none")


def test_a_locked_table_costs_its_own_metrics_only() -> None:
    """The sizes of tables are one question: PostgreSQL locks a table for a moment to measure it."""
    locked, done = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE tasks_mail IN ACCESS EXCLUSIVE MODE")
            locked.set()
            done.wait(20)
        connection.close()

    thread = threading.Thread(target=lock)
    thread.start()
    try:
        assert locked.wait(60)
        read, answered = figures.read()
    finally:
        done.set()
        thread.join()
    assert {name for name, passed in answered.items() if not passed} == {"mails", "sizes"}
    assert "mails_waiting" not in read
    assert "webhooks_waiting" in read


def test_a_flood_of_scrapes_asks_once() -> None:
    asked = []

    def read() -> tuple[figures.Figures, dict[str, bool]]:
        asked.append(1)
        time.sleep(0.2)
        return {"workers": {(): 1.0}}, {"workers": True}

    sampler = Sampler(read)
    got = []
    threads = [threading.Thread(target=lambda: got.append(sampler.sample())) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (len(asked), len(got), set(map(bool, got))) == (1, 20, {True})
    assert sampler.sample()
    assert len(asked) == 1


def test_a_question_that_fails_in_an_unknown_way_is_no_answer() -> None:
    def read() -> tuple[figures.Figures, dict[str, bool]]:
        raise ZeroDivisionError

    sampler = Sampler(read)
    threading.excepthook, before = lambda _: None, threading.excepthook
    try:
        assert sampler.sample() is None
    finally:
        threading.excepthook = before


# ---- real processes


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def get(port: int, path: str) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    line.request("GET", path, headers={"Host": "localhost"})
    line.getresponse().read()
    line.close()


def answered(port: int) -> float:
    found = parsed(scrape(port)[1])
    return sum(value for (name, labels), value in found.items() if name == "waybill_request_seconds_count")


@pytest.mark.own_interpreter
def test_counts_of_two_processes_add_up_and_survive_a_death(
    postgres: Postgres, redis_server: Redis, tmp_path: Path
) -> None:
    with web_server(postgres, redis_server, tmp_path, "--workers", "2") as port:
        eventually(lambda: parsed(scrape(port)[1])["waybill_web_processes", ()] == 2)
        for _ in range(40):
            get(port, "/v0.10/task_list")
        assert {answered(port) for _ in range(10)} == {40.0}
        status, text = scrape(port)
        assert status == 200
        assert parsed(text)["waybill_request_seconds_count", ("/v0.10/task_list", "4xx")] == 40
        [master] = [one for one in children(os.getpid()) if b"gunicorn" in (command_of(one) or [])]
        killed = children(master)[0]
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: killed not in children(master) and len(children(master)) == 2)
        eventually(lambda: parsed(scrape(port)[1])["waybill_web_processes", ()] == 2)
        assert answered(port) == 40
        for _ in range(20):
            get(port, "/v0.10/task_list")
        found = parsed(scrape(port)[1])
        assert answered(port) == 60
        assert found["waybill_requests_in_progress", ()] == 0
        assert found["waybill_database_statements_total", ()] > 0


def test_a_database_that_hangs_leaves_what_is_known(postgres: Postgres, redis_server: Redis, tmp_path: Path) -> None:
    with web_server(postgres, redis_server, tmp_path, "--workers", "1") as port:
        get(port, "/v0.10/task_list")
        postmaster = int((postgres.data / "postmaster.pid").read_text().split("\n")[0])
        # Its sessions would go on otherwise, and the web server has one.
        processes = [postmaster, *children_of(postmaster)]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            status, text = scrape(port)
            taken = time.monotonic() - began
        finally:
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        found = parsed(text)
        assert (status, found["waybill_database_answers", ()]) == (200, 0)
        assert taken < 3
        assert found["waybill_request_seconds_count", ("/v0.10/task_list", "4xx")] == 1
        assert ("waybill_workers", ()) not in found
        eventually(lambda: parsed(scrape(port)[1])["waybill_database_answers", ()] == 1)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing (Debian package prometheus)")
def test_promtool_accepts_the_names(client: Client) -> None:
    client.get("/v0.10/task_list")
    tallies.add("files", "ftp", "ftp")
    tallies.flush()
    text = client.get("/metrics").content
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    named = {family.name for family in text_string_to_metric_families(text.decode())}
    assert {one.name.removesuffix("_total") for one in FAMILIES.values()} == named


def test_the_end_of_the_certificate_of_the_web_server(client: Client, settings: Any, tmp_path: Path) -> None:
    """Of the file as it is now; a file without a certificate is no error."""
    name = ("waybill_certificate_expires_seconds", ())
    settings.TLS_CERTIFICATE = None
    assert name not in samples(client)
    settings.TLS_CERTIFICATE = path = tmp_path / "certificate.pem"
    assert name not in samples(client)
    authority, now = grid.authority(), timezone.now()
    for days in (9, 90):
        host = grid.host(authority, begins=now - timedelta(days=1), ends=now + timedelta(days=days))
        path.write_bytes(grid.certificate_pem(host.certificate))
        assert days * 86400 - 120 < samples(client)[name] <= days * 86400
    path.write_text("no certificate")
    assert name not in samples(client)
