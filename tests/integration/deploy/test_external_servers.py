"""DATABASE_URL with a primary and its standby, REDIS_URL with TLS and with Sentinels: real servers, and failovers."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import redis
from celery import Celery
from django.core.cache.backends.redis import RedisCache
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from kombu.exceptions import OperationalError as BrokerError
from pytest_django import DjangoDbBlocker

from bench.wan.network import Network
from deploy.backup import programs
from deploy.endpoint.authority import CertificateFiles
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from tests.gridftp.authority import Authority
from tests.memory import folder_in_memory
from tests.servers.external_servers import HOST, REDIS_WITH_TLS, NetworkPostgres, NetworkRedis, Sentinels, Tls, ends_tls
from tests.waiting import children_of, eventually
from transferapi import redis_client
from transferapi.config import CHECKOUT
from transferapi.config.servers import broker_options, broker_tls, broker_url, database
from transferapi.outages import database as database_outage
from transferapi.outages import outage
from transferapi.rest import health_checks
from transferapi.tasks import doorbell

HAS_NETWORKS = os.geteuid() == 0 and Path("/dev/net/tun").exists() and shutil.which("ip") and shutil.which("cc")
PASSWORD = secrets.token_hex(8) + "%,@"
QUOTED = PASSWORD.replace("%", "%25").replace(",", "%2C").replace("@", "%40")


@contextmanager
def connected(url: str) -> Iterator[BaseDatabaseWrapper]:
    """A connection of Django by a DATABASE_URL."""
    connection = ConnectionHandler({"default": database(url)})["default"]
    try:
        yield connection
    finally:
        connection.close()


def value(connection: BaseDatabaseWrapper, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


# ---- PostgreSQL


@pytest.fixture
def home() -> Iterator[Path]:
    with folder_in_memory("waybill-external-", 0o711) as folder:
        yield folder


@pytest.fixture
def primary(home: Path) -> Iterator[NetworkPostgres]:
    (home / "primary").mkdir(mode=0o711)
    server = NetworkPostgres(home / "primary", PASSWORD)
    server.start()
    server.run(f"ALTER ROLE waybill PASSWORD '{PASSWORD}'")
    yield server
    server.stop()


@pytest.fixture
def standby(home: Path, primary: NetworkPostgres) -> Iterator[NetworkPostgres]:
    (home / "standby").mkdir(mode=0o711)
    server = primary.make_standby(home / "standby")
    yield server
    server.stop()


@pytest.mark.timeout(180)
def test_the_primary_is_found_among_several_hosts_also_after_a_failover(
    primary: NetworkPostgres, standby: NetworkPostgres, django_db_blocker: DjangoDbBlocker
) -> None:
    url = f"postgresql://waybill:{QUOTED}@{standby.place},{HOST}:{free_port()},{primary.place}/waybill"
    with django_db_blocker.unblock(), connected(url) as connection:
        assert value(connection, "SELECT inet_server_port()") == primary.port
        assert psql_says(connection, "SELECT inet_server_port()") == str(primary.port)
        primary.kill()
        with pytest.raises(OperationalError):
            value(connection, "SELECT 1")
        connection.close()
        # Nobody accepts writes now, and that has an end.
        with pytest.raises(OperationalError):
            connection.ensure_connection()
        standby.run("SELECT pg_promote()")
        assert value(connection, "SELECT inet_server_port()") == standby.port
        assert psql_says(connection, "SELECT inet_server_port()") == str(standby.port)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE proof (written int)")
        assert hears(connection)


@pytest.mark.timeout(180)
@pytest.mark.skipif(not HAS_NETWORKS, reason="needs root, /dev/net/tun, ip and a C compiler")
def test_a_host_that_is_cut_off_keeps_its_locks_for_seconds(home: Path, django_db_blocker: DjangoDbBlocker) -> None:
    """The server hears nothing of the end: without limits of its own it keeps the session for a minute."""
    (home / "primary").mkdir(mode=0o711)
    with Network() as network:
        server = NetworkPostgres(home / "primary", PASSWORD, str(network.destination.address))
        with network.inside("destination"):
            server.start()
        try:
            server.run(f"ALTER ROLE waybill PASSWORD '{PASSWORD}'")
            url = f"postgresql://waybill:{QUOTED}@{server.place}/waybill"
            with django_db_blocker.unblock(), network.inside("source"), connected(url) as connection:
                connection.set_autocommit(False)
                assert value(connection, "SELECT pg_advisory_xact_lock(1) IS NOT NULL")
                assert server.run("SELECT pg_try_advisory_lock(1)") is False
                network.shape(rtt_ms=1, loss=1.0)
                eventually(lambda: server.run("SELECT pg_try_advisory_lock(1)"))
        finally:
            server.stop()


def psql_says(connection: BaseDatabaseWrapper, statement: str) -> str:
    """The answer by psql, as backups and restores call the programs of PostgreSQL."""
    found = programs.environment(connection.get_connection_params())
    words = [str(programs.find("psql", 18)), "--no-psqlrc", "--tuples-only", "--no-align", "--command", statement]
    done = subprocess.run(words, env=found, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def hears(connection: BaseDatabaseWrapper) -> bool:
    """Whether a notification arrives, as the streams of events wait for it."""
    with connection.cursor() as cursor:
        cursor.execute("LISTEN waybill_test")
        cursor.execute("NOTIFY waybill_test, 'x'")
    raw = connection.connection
    assert isinstance(raw, psycopg2.extensions.connection)
    eventually(lambda: raw.poll() or raw.notifies)
    return True


@pytest.mark.timeout(60)
def test_a_host_that_answers_nothing_costs_its_part_of_the_time(
    primary: NetworkPostgres, django_db_blocker: DjangoDbBlocker
) -> None:
    """Without the limit, libpq would wait for the first host for ever."""
    with socket.create_server((HOST, 0)) as silent:
        place = f"{HOST}:{silent.getsockname()[1]}"
        url = f"postgresql://waybill:{QUOTED}@{place},{primary.place}/waybill?connect_timeout=2"
        with django_db_blocker.unblock(), connected(url) as connection:
            assert value(connection, "SELECT inet_server_port()") == primary.port


def serve_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a web process does, on a machine that is not busy: there it would wait longer than libpq does."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(outage, "_watching", True)
    monkeypatch.setattr(database_outage, "_timeouts", database_outage.OF_REQUESTS)
    monkeypatch.setattr(database_outage, "_first", 0)


def answers(connection: BaseDatabaseWrapper, server: NetworkPostgres) -> bool:
    try:
        return bool(value(connection, "SELECT inet_server_port()") == server.port)
    except OperationalError:
        connection.close()
        return False


@pytest.mark.timeout(90)
def test_a_host_that_answers_nothing_does_not_keep_a_server_from_the_primary(
    primary: NetworkPostgres, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request waits for less than libpq gives to one host. So the next attempt begins with the host that answers."""
    serve_requests(monkeypatch)

    with socket.create_server((HOST, 0)) as silent:
        place = f"{HOST}:{silent.getsockname()[1]}"
        url = f"postgresql://waybill:{QUOTED}@{place},{primary.place}/waybill"
        with django_db_blocker.unblock(), connected(url) as connection:
            assert not answers(connection, primary)
            eventually(lambda: answers(connection, primary))
            connection.close()
            assert answers(connection, primary)
        eventually(lambda: not database_outage.OUTAGE.is_on)


@pytest.mark.timeout(120)
def test_the_first_connection_after_a_failover_finds_the_new_primary(
    primary: NetworkPostgres,
    standby: NetworkPostgres,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All hosts are asked side by side: the lost primary, which answers nothing, and a standby, which refuses."""
    serve_requests(monkeypatch)
    outages = database_outage.OUTAGE
    url = f"postgresql://waybill:{QUOTED}@{primary.place},{standby.place}/waybill"
    with django_db_blocker.unblock(), connected(url) as connection:
        assert value(connection, "SELECT inet_server_port()") == primary.port
        primary.kill()
        with socket.create_server((HOST, primary.port)):
            eventually(lambda: not answers(connection, primary))
            assert not answers(connection, primary)
            assert outages.is_on
            standby.run("SELECT pg_promote()")
            eventually(lambda: not outages.is_on)
            assert value(connection, "SELECT inet_server_port()") == standby.port
    assert not outages.is_on


@pytest.mark.timeout(120)
def test_a_primary_that_hangs_is_noticed_though_its_standby_answers(
    primary: NetworkPostgres,
    standby: NetworkPostgres,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The standby is the first of the list: its refusal is no answer of the primary."""
    serve_requests(monkeypatch)
    url = f"postgresql://waybill:{QUOTED}@{standby.place},{primary.place}/waybill"
    with django_db_blocker.unblock(), connected(url) as connection:
        assert value(connection, "SELECT inet_server_port()") == primary.port
        assert primary.process is not None
        pids = [primary.process.pid, *children_of(primary.process.pid)]
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(0.2):
                database_outage._look_once()

        watching = threading.Thread(target=look)
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            watching.start()
            with pytest.raises(OperationalError):
                value(connection, "SELECT 1")
        finally:
            ended.set()
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            watching.join()
        connection.close()
    eventually(lambda: not database_outage.OUTAGE.is_on)


# ---- Redis with TLS


@pytest.fixture
def network_redis(home: Path) -> Iterator[NetworkRedis]:
    server = NetworkRedis(home, secrets.token_hex(8))
    server.start()
    yield server
    server.stop()


def use(settings: Any, url: str) -> None:
    settings.REDIS_URL = url
    settings.CELERY_BROKER_URL = broker_url(url)
    settings.CELERY_BROKER_USE_SSL = broker_tls(url)
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = broker_options(url)


def test_redis_is_reached_by_tls_if_its_certificate_is_good(
    network_redis: NetworkRedis, authority: Authority, host_of: Callable[[Authority], CertificateFiles], settings: Any
) -> None:
    host = host_of(authority)
    with ends_tls(host.certificate, host.key, network_redis.port) as port:
        address = f"rediss://:{network_redis.password}@{HOST}:{port}"
        use(settings, f"{address}/2?ssl_ca_certs={authority.ca_certificate}")
        assert health_checks.redis_server() == ""
        assert cache_keeps(settings.REDIS_URL)
        assert doorbell.ring([uuid.uuid4()])
        assert messages(network_redis, 2) == 1
        # The authorities of the system do not know it: nothing is sent, the password included.
        use(settings, f"{address}/3")
        assert "Redis does not answer (ConnectionError)" in health_checks.redis_server()
        assert not doorbell.ring([uuid.uuid4()])
        assert messages(network_redis, 3) == 0


def cache_keeps(url: str) -> bool:
    options = {"pool_class": "transferapi.rest.metrics.requests.CountingPool"}
    cache = RedisCache([url], {"OPTIONS": options})
    key = secrets.token_hex(8)
    cache.set(key, "x", 60)
    return bool(cache.get(key) == "x")


def messages(server: NetworkRedis, number: int) -> int:
    with server.client(number) as client:
        return int(str(client.llen("celery")))


# ---- Sentinels


@pytest.fixture
def copies(home: Path, network_redis: NetworkRedis) -> Iterator[NetworkRedis]:
    """The server that copies `network_redis`."""
    (home / "copy").mkdir(mode=0o711)
    server = NetworkRedis(home / "copy", network_redis.password, master=network_redis.port)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def sentinels(home: Path, network_redis: NetworkRedis, copies: NetworkRedis) -> Iterator[Sentinels]:
    found = Sentinels(home, network_redis)
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.mark.timeout(240)
@pytest.mark.django_db(transaction=True)
def test_the_service_follows_the_master_that_the_sentinels_name(
    sentinels: Sentinels,
    network_redis: NetworkRedis,
    copies: NetworkRedis,
    settings: Any,
    database_url: str,
    tmp_path: Path,
) -> None:
    follow_a_failover(sentinels, network_redis, copies, settings, database_url, tmp_path)


@contextmanager
def sentinels_with_tls(home: Path, tls: Tls) -> Iterator[tuple[Sentinels, NetworkRedis, NetworkRedis]]:
    """Three Sentinels, the master and its copy."""
    for name in ("master", "copy"):
        (home / name).mkdir(mode=0o711)
    master = NetworkRedis(home / "master", secrets.token_hex(8), tls=tls)
    copy = NetworkRedis(home / "copy", master.password, master.port, tls)
    found = Sentinels(home, master)
    try:
        master.start()
        copy.start()
        found.start()
        yield found, master, copy
    finally:
        found.stop()
        copy.stop()
        master.stop()


@pytest.mark.timeout(240)
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(REDIS_WITH_TLS is None, reason="Redis with TLS is missing (Debian package redis-tools)")
def test_sentinels_and_the_master_are_reached_by_tls_if_their_certificates_are_good(
    home: Path,
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
    settings: Any,
    database_url: str,
    tmp_path: Path,
) -> None:
    files = host_of(authority)
    tls = Tls(files.certificate, files.key, authority.ca_certificate)
    with sentinels_with_tls(home, tls) as (found, master, copy):
        # The authorities of the system do not know it: nothing is sent, the password included.
        use(settings, found.url(2).partition("&ssl_ca_certs")[0])
        assert "Redis does not answer" in health_checks.redis_server()
        assert not doorbell.ring([uuid.uuid4()])
        assert messages(master, 2) == 0
        # Nobody answers without TLS.
        use(settings, found.url(2).replace("sentinel+tls", "sentinel").partition("&ssl_ca_certs")[0])
        assert "Redis does not answer" in health_checks.redis_server()
        follow_a_failover(found, master, copy, settings, database_url, tmp_path)


def follow_a_failover(
    sentinels: Sentinels,
    network_redis: NetworkRedis,
    copies: NetworkRedis,
    settings: Any,
    database_url: str,
    tmp_path: Path,
) -> None:
    use(settings, sentinels.url(1))
    with worker(database_url, sentinels.url(1), tmp_path):
        assert health_checks.redis_server() == ""
        assert cache_keeps(settings.REDIS_URL)
        assert doorbell.ring([uuid.uuid4()])
        eventually(lambda: messages(network_redis, 1) == 0, seconds=90)
        sentinels.freeze(0)
        assert network_redis.process is not None
        network_redis.process.kill()
        # The two others agree, and the copy becomes the master. All is reached again by the same address.
        eventually(lambda: health_checks.redis_server() == "", seconds=90)
        assert cache_keeps(settings.REDIS_URL)
        with redis_client.connected(settings.REDIS_URL, 5.0) as client:
            assert client.info("server")["tcp_port"] == copies.port
        eventually(lambda: doorbell.ring([uuid.uuid4()]))
        eventually(lambda: messages(copies, 1) == 0, seconds=90)


@contextmanager
def worker(database_url: str, redis_url: str, folder: Path) -> Iterator[None]:
    """A real worker process, which takes messages while this lasts."""
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_HOME": str(folder),
        "WAYBILL_WORKER_THREADS": "2",
    }
    log = folder / "worker.log"
    process = spawn([sys.executable, "-m", "deploy.cli", "run", "worker"], log=log, env=given, cwd=CHECKOUT)
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        stop(process, timeout=30)


def test_sentinels_that_are_away_are_an_error_of_redis(settings: Any) -> None:
    use(settings, f"sentinel://:hunter2@{HOST}:{free_port()},{HOST}:{free_port()}/0?master=waybill")
    assert "Redis does not answer (MasterNotFoundError)" in health_checks.redis_server()
    assert not doorbell.ring([uuid.uuid4()])
    with pytest.raises(redis.RedisError), redis_client.connected(settings.REDIS_URL, 1.0) as client:
        client.ping()
    app = Celery(broker=settings.CELERY_BROKER_URL, set_as_current=False)
    app.conf.broker_transport_options = {**settings.CELERY_BROKER_TRANSPORT_OPTIONS, "max_retries": 0}
    with pytest.raises((BrokerError, redis.RedisError)), app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)
