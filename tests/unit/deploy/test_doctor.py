"""`waybill doctor`: each finding where it is so, with real files, certificates, servers and settings."""

from __future__ import annotations

import inspect
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from django.core.mail import get_connection
from django.test import override_settings

from deploy import cli
from deploy.commands import doctor
from deploy.commands.doctor import NAMES, report
from deploy.doctor import (
    authorities,
    disk,
    files,
    keys,
    limits,
    mail,
    names,
    ports,
    servers,
    settings,
    traces,
    versions,
)
from deploy.doctor.findings import Finding, Severity, error, good, warning
from deploy.doctor.probes import PROBES, Probe
from deploy.stack.free_ports import free_port
from deploy.stack.home import new_rsa_key, write_private
from docs.draw import probes as drawn_probes
from identity.provider import signing_key_file
from identity.provider.signing_key_file import SigningKey
from tests import hostile_certificates as grid
from tests.servers.mail_server import MailServer
from tests.servers.otlp_collector import collecting
from transferapi.config import CHECKOUT, Config, load
from transferapi.config import mail as mail_settings

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
KEY = "k" * 20 + "0123456789" * 4


def said(found: Iterable[Finding]) -> list[str]:
    """The findings that are not fine, as "warning: text"; each says what to do."""
    bad = [one for one in found if one.severity]
    assert all(one.do for one in bad)
    return [f"{one.severity.name.lower()}: {one.text}" for one in bad]


def only(found: Iterable[Finding], severity: str, words: str) -> None:
    [text] = said(found)
    assert text.startswith(f"{severity}: ")
    assert words in text


# ---- traces


@pytest.mark.parametrize(
    ("status", "words"),
    [(200, ""), (401, "refuses this service"), (404, "answers with status 404"), (302, "answers with status 302")],
)
def test_the_collector_of_traces(status: int, words: str) -> None:
    assert list(traces.check(load({}))) == []
    with collecting() as collector:
        collector.status, collector.location = status, "http://127.0.0.1:1/"
        config = load({"WAYBILL_TRACES": collector.url, "WAYBILL_TRACES_HEADERS": "X-Key: hidden"})
        if words:
            only(traces.check(config), "error", words)
        else:
            assert [one.severity for one in traces.check(config)] == [0]
        assert collector.headers[0]["x-key"] == "hidden"


# ---- settings


def test_wrong_settings_are_all_that_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYBILL_PORT", "no")
    monkeypatch.setenv("WAYBILL_PROT", "9000")
    assert cli.main(["doctor", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "error"
    assert list(document["checks"]) == ["settings"]
    assert [one["severity"] for one in document["checks"]["settings"]] == ["ERROR", "ERROR"]


def test_a_check_that_does_not_exist_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["doctor", "weather"])
    assert caught.value.code == 2
    assert "'weather' is none of settings, " in capsys.readouterr().err


def test_missing_settings() -> None:
    found = said(settings._missing(load({})))
    assert [text.split(" is not set")[0] for text in found] == [
        "error: DATABASE_URL", "error: REDIS_URL", "error: WAYBILL_SECRET_KEY",
        "warning: WAYBILL_VAULT_KEY", "warning: WAYBILL_OIDC_KEY",
    ]  # fmt: skip


def test_dangerous_settings() -> None:
    assert said(settings._dangerous(load({"WAYBILL_PUBLIC_URL": "https://data.example.org"}))) == []
    only(settings._dangerous(load({"WAYBILL_PUBLIC_URL": "http://data.example.org"})), "error", "in clear")
    only(settings._dangerous(load({"WAYBILL_DEBUG": "1"})), "warning", "tracebacks")
    public = {"WAYBILL_DEBUG": "1", "WAYBILL_PUBLIC_URL": "https://data.example.org"}
    only(settings._dangerous(load(public)), "error", "tracebacks")


def test_the_checks_of_django_count() -> None:
    with override_settings(SECRET_KEY="short"):
        assert any("security.W009" in text for text in said(settings._of_django()))


# ---- keys


def test_a_certificate_that_ends() -> None:
    authority = grid.authority()
    for ends, begins, severity in (
        (NOW + 100 * DAY, NOW - DAY, Severity.OK),
        (NOW + 5 * DAY, NOW - DAY, Severity.WARNING),
        (NOW - DAY, NOW - 9 * DAY, Severity.ERROR),
        (NOW + 9 * DAY, NOW + DAY, Severity.ERROR),
    ):
        one = grid.host(authority, ends=ends, begins=begins)
        assert keys.ending("It", one.certificate, "Renew it.").severity is severity


def tls(folder: Path, *, ends: datetime = NOW + 90 * DAY, key: bytes | None = None) -> Config:
    host = grid.host(grid.authority(), x509.DNSName("data.example.org"), begins=NOW - DAY, ends=ends)
    (folder / "chain").write_bytes(grid.certificate_pem(host.certificate))
    (folder / "key").write_bytes(key or grid.key_pem(host.key))
    named = {"WAYBILL_TLS_CERTIFICATE": str(folder / "chain"), "WAYBILL_TLS_KEY": str(folder / "key")}
    return load({**named, "WAYBILL_PUBLIC_URL": "https://data.example.org"})


def test_the_certificate_of_the_web_server(tmp_path: Path) -> None:
    assert said(keys._web(tls(tmp_path))) == []
    only(keys._web(tls(tmp_path, ends=NOW - timedelta(hours=1))), "error", "expired on")
    only(keys._web(tls(tmp_path, key=new_rsa_key().encode())), "error", "do not belong together")
    other = tls(tmp_path)
    environ = {"WAYBILL_TLS_CERTIFICATE": str(other.tls_certificate), "WAYBILL_TLS_KEY": str(other.tls_key)}
    only(keys._web(load({**environ, "WAYBILL_PUBLIC_URL": "https://other.example.org"})), "error", "does not fit")


def test_old_keys(tmp_path: Path) -> None:
    def config(*written: SigningKey) -> Config:
        path = tmp_path / "oidc"
        write_private(path, signing_key_file.text_of(written))
        os.utime(path, (age, age))
        return load({"WAYBILL_OIDC_KEY_FILE": str(path)})

    pem, age = new_rsa_key().strip(), time.time()
    assert said(keys._oidc(config(SigningKey(pem)))) == []
    only(keys._oidc(config(SigningKey(pem, NOW - 500 * DAY))), "warning", "500 days old")
    age = (NOW - 450 * DAY).timestamp()
    only(keys._oidc(config(SigningKey(pem))), "warning", "450 days old")


#: Prints the advice for an old key of the vault, and reads the key, which may write to the log.
OF_A_KEY = """
import sys
import django
from datetime import timedelta
from pathlib import Path
django.setup()
from deploy.doctor import keys
from identity.vault.watched_file import WatchedFile
path = Path(sys.argv[1])
print(keys._old(path, "vault", timedelta(days=900), "the-keys-of-the-vault").do)
WatchedFile("vault keys", str).read(path, "")
"""


@pytest.mark.parametrize("is_given", [True, False])
def test_a_key_that_a_container_is_given_is_replaced_outside_of_it_and_keeps_its_mode(
    tmp_path: Path, is_given: bool
) -> None:
    """Mounted read-only and readable for all, as docker-compose.yml does it: no command works on the file in there."""
    path = tmp_path / "vault-key"
    mount = f"mount -t tmpfs -o mode=755 keys {tmp_path}" if is_given else ":"
    then = f"mount -o remount,ro {tmp_path}" if is_given else ":"
    script = f'{mount} && echo k > {path} && chmod 644 {path} && {then} && exec {sys.executable} -c "$0" {path}'
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "transferapi.settings"}
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, OF_A_KEY],
        capture_output=True, text=True, timeout=60, check=False, env=environ, cwd=CHECKOUT,
    )  # fmt: skip
    if done.stderr.startswith("unshare"):
        pytest.skip("no namespaces here")
    assert ("docs/operate/compose.md#keys" in done.stdout) is is_given, done.stderr
    assert ("docs/operate/keys.md#the-keys-of-the-vault" in done.stdout) is not is_given
    assert ("chmod 600" in done.stderr) is not is_given


ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t004DD50A\t00000000\t0001\t0\t0\t0\tF8FFFFFF\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is one of a little-endian processor")
@pytest.mark.parametrize(
    ("monitors", "is_shared"),
    [
        ("127.0.0.0/8,::1/128,10.213.77.1/32", True),
        ("10.0.0.0/8", True),
        ("127.0.0.0/8,::1/128", False),
        # A program with an address of its own in that network, and the gateway of another network.
        ("10.213.77.6/32,10.0.0.1/32", False),
    ],
)
def test_a_monitor_that_is_the_gateway_of_docker_is_every_client_whose_address_is_lost(
    monitors: str, is_shared: bool
) -> None:
    config = load({"WAYBILL_MONITORS": monitors, "WAYBILL_FRONT_SERVERS": "10.213.77.2/32"})
    found = settings.shared(ROUTES, config.front_servers, config.monitors)
    if is_shared:
        only(found, "warning", "WAYBILL_MONITORS has 10.213.77.1")
    else:
        assert said(found) == []


def test_outside_of_a_container_no_gateway_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MARKS", ())
    assert (
        said(settings.check_container(load({"WAYBILL_MONITORS": "0.0.0.0/0", "WAYBILL_FRONT_SERVERS": "0.0.0.0/0"})))
        == []
    )


def test_certificates_of_a_federation(tmp_path: Path) -> None:
    path = tmp_path / "federation"
    path.write_bytes(grid.certificate_pem(grid.authority(begins=NOW - 9 * DAY, ends=NOW - DAY).certificate))
    only(keys._saml(load({"WAYBILL_SAML_CERTIFICATE": str(path)})), "error", "expired")
    path.write_text("nothing")
    only(keys._saml(load({"WAYBILL_SAML_CERTIFICATE": str(path)})), "error", "no certificate in PEM")


# ---- clock


@pytest.mark.parametrize(("ahead", "severity"), [(0.0, None), (3.0, "warning"), (-3600.0, "error")])
def test_clocks_that_differ(ahead: float, severity: str | None) -> None:
    found = servers.compare("PostgreSQL", lambda: time.time() + ahead)
    assert (found.severity.name.lower() if found.severity else None) == severity


# ---- files with secrets


def test_files_with_secrets_that_are_open(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    file = folder / "secret"
    write_private(file, KEY)
    assert said(files.openings(file)) == []
    file.chmod(0o640)
    assert said(files.openings(file)) == [], "containers give the group the right to read"
    for mode in (0o604, 0o620):
        file.chmod(mode)
        only(files.openings(file), "error", f"mode {mode:o}")
    file.chmod(0o600)
    folder.chmod(0o777)
    only(files.openings(file), "error", "its folder is open")
    folder.chmod(0o700)
    only(files.openings(folder / "missing"), "error", "cannot be looked at")


def test_a_file_that_compose_mounts_is_as_it_is_on_the_host(tmp_path: Path) -> None:
    """In a mount namespace, where a file of another file system is mounted over one of this folder."""
    program = (
        "import pathlib, sys; from deploy.doctor import files; "
        "print(len(list(files.openings(pathlib.Path(sys.argv[1])))))"
    )
    outside, inside = tmp_path / "outside", tmp_path / "secret"
    outside.mkdir()
    inside.touch(mode=0o644)
    mounts = (
        'mount -t tmpfs none "$1"; touch "$1/file"; mount --bind "$1/file" "$2"; "$3" -c "$4" "$2"; '
        'mount -o remount,bind,ro "$2"; "$3" -c "$4" "$2"'
    )
    words = ["unshare", "--map-root-user", "--mount", "sh", "-ec", mounts, "sh"]
    words += [str(outside), str(inside), sys.executable, program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, cwd=CHECKOUT)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip("this machine makes no mount namespaces")
    assert done.stdout.split() == ["1", "0"], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_secret_of_another_account(tmp_path: Path) -> None:
    write_private(tmp_path / "secret", KEY)
    os.chown(tmp_path / "secret", 12345, -1)
    only(files.openings(tmp_path / "secret"), "error", "another account (12345)")


def test_all_files_that_variables_name_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_private(tmp_path / "key", KEY)
    (tmp_path / "key").chmod(0o644)
    monkeypatch.setenv("WAYBILL_FRONT_SECRET_FILE", str(tmp_path / "key"))
    only(files.check(load({"WAYBILL_HOME": str(tmp_path / "home")})), "error", "mode 644")


# ---- names


def test_a_name_without_address() -> None:
    # A name that the resolver itself refuses: no question leaves the machine.
    environ = {
        "WAYBILL_PUBLIC_URL": "https://a..example.org", "WAYBILL_MAIL": "smtp://b..example.org:25",
        "WAYBILL_MYPROXY_SIGN_IN": "127.0.0.1:7512 domain=example.net",
    }  # fmt: skip
    found = said(names.check(load(environ)))
    assert len(found) == 2
    assert "a..example.org (WAYBILL_PUBLIC_URL) has no address" in found[0]
    assert "b..example.org (WAYBILL_MAIL)" in found[1]


def test_every_setting_that_names_a_host_is_asked() -> None:
    environ = {
        "WAYBILL_PUBLIC_URL": "https://a.example.org", "WAYBILL_MAIL": "smtp://b.example.org",
        "WAYBILL_PROVIDERS": "https://c.example.org id secret domain=c.example.org",
        "WAYBILL_MYPROXY_SIGN_IN": "d.example.org domain=d.example.org",
        "WAYBILL_SAML_METADATA": "https://e.example.org/metadata,/etc/metadata.xml",
        "WAYBILL_OAUTH_CLIENTS": "https://f.example.org id", "WAYBILL_RELAY": "g.example.org:8003",
    }  # fmt: skip
    assert sorted(host for host, _ in names.hosts(load(environ))) == [f"{letter}.example.org" for letter in "abcdefg"]
    assert list(names.hosts(load({}))) == []


# ---- authorities


def config_of(folder: Path) -> Config:
    return load({"WAYBILL_CERTIFICATES": str(folder)})


def test_authorities(tmp_path: Path) -> None:
    only(authorities.check(config_of(tmp_path / "missing")), "warning", "no GSI server is trusted")
    authority = grid.authority(ends=NOW + 900 * DAY)
    grid.trust(tmp_path, authority)
    assert said(authorities.check(config_of(tmp_path))) == []
    (tmp_path / f"{grid.stem(authority)}.signing_policy").unlink()
    only(authorities.check(config_of(tmp_path)), "warning", "has no signing policy")
    grid.trust(tmp_path, authority)
    for ends, severity, words in (
        (NOW - DAY / 24, "error", "out of date"),
        (NOW + DAY / 24, "warning", "ends within 12 hours"),
    ):
        grid.publish(tmp_path, authority, grid.revocation_list(authority, begins=NOW - 9 * DAY, ends=ends))
        only(authorities.check(config_of(tmp_path)), severity, words)
    grid.publish(tmp_path, authority, grid.revocation_list(authority, begins=NOW - DAY, ends=NOW + 9 * DAY))
    assert said(authorities.check(config_of(tmp_path))) == []
    grid.publish(tmp_path, authority, b"nothing")
    only(authorities.check(config_of(tmp_path)), "error", "left out")


def test_an_authority_that_has_expired_and_a_flood(tmp_path: Path) -> None:
    grid.trust(tmp_path, grid.authority(begins=NOW - 9 * DAY, ends=NOW - DAY))
    only(authorities.check(config_of(tmp_path)), "error", "expired on")
    for number in range(30):
        (tmp_path / f"{number:08x}.r0").write_text("nothing")
    found = said(authorities.check(config_of(tmp_path)))
    assert len(found) == authorities.MOST + 1
    assert "11 more findings" in found[-1]


# ---- mail


@contextmanager
def smtp(mode: str = "take", query: str = "?starttls=no", **more: Any) -> Iterator[MailServer]:
    server = MailServer(mode, **more)
    url = f"smtp://127.0.0.1:{server.port}{query}"
    try:
        with override_settings(**mail_settings.parse(url), DEFAULT_FROM_EMAIL="waybill@example.org"):
            yield server
    finally:
        server.close()


WITH_SENDER = load({"WAYBILL_MAIL_FROM": "waybill@example.org"})


def test_mail_is_tried_and_sent_only_if_asked() -> None:
    with smtp() as server:
        assert said(mail.check(WITH_SENDER)) == []
        assert (server.connections, server.mails) == (1, [])
        assert said(mail.check(WITH_SENDER, to="root@example.org")) == []
        assert [one["To"] for one in server.mails] == ["root@example.org"]
        only(mail.check(load({})), "warning", "waybill@localhost")


@pytest.mark.parametrize(
    ("mode", "query", "to", "words"),
    [
        ("busy", "?starttls=no", "", "answered with the code 421"),
        ("take", "", "", "offers no STARTTLS"),
        ("refuse", "?starttls=no", "nobody@example.org", "refuses the recipient"),
        ("hang", "?starttls=no", "", "does not answer ("),
    ],
)
def test_a_mail_server_that_does_not_work(
    mode: str, query: str, to: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "SECONDS", 0.5 if mode == "hang" else 5)
    with smtp(mode, query):
        only(mail.check(WITH_SENDER, to=to), "error", words)


def test_a_mail_server_that_is_away_or_refuses_the_password_or_has_no_tls() -> None:
    away = f"smtp://127.0.0.1:{free_port()}?starttls=no"
    with override_settings(**mail_settings.parse(away)):
        only(mail.check(WITH_SENDER), "error", "ConnectionRefusedError")
    # It answers 250 where 235 or 334 is due.
    with smtp(offers=("AUTH PLAIN",)), override_settings(EMAIL_HOST_USER="waybill", EMAIL_HOST_PASSWORD=KEY):
        [text] = said(mail.check(WITH_SENDER))
        assert "refuses the sign-in (code 250)" in text
        assert KEY not in text
    with smtp(offers=("STARTTLS",)), override_settings(EMAIL_USE_TLS=True):
        assert get_connection().use_tls  # type: ignore[attr-defined]
        [text] = said(mail.check(WITH_SENDER))
        assert text.startswith("error: ")
    with override_settings(EMAIL_BACKEND=mail_settings.BACKENDS + "console.EmailBackend"):
        only(mail.check(WITH_SENDER), "warning", "no mail server")


# ---- ports


@contextmanager
def answering(text: bytes) -> Iterator[str]:
    """A server that gives each connection the same answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(text)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes", "answered by another program"),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n", "answers with status 502"),
        (b"what?\r\n\r\n", "does not answer from this machine"),
    ],
)
def test_a_public_address_that_is_not_ours(answer: bytes, words: str) -> None:
    with answering(answer) as url:
        only([ports._public(load({"WAYBILL_PUBLIC_URL": url}))], "error", words)


def test_a_public_address_without_a_server() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    only([ports._public(load({"WAYBILL_PUBLIC_URL": url}))], "error", "ConnectionRefusedError")


# ---- disk, limits, versions


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk.free("it", tmp_path).severity is not None
    left = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    monkeypatch.setattr(disk, "OCTETS", (2 * left, left // 2))
    only([disk.free("it", tmp_path)], "warning", "GiB free")
    monkeypatch.setattr(disk, "OCTETS", (4 * left, 2 * left))
    only([disk.free("it", tmp_path)], "error", "GiB free")


def test_limits_of_the_system() -> None:
    assert limits.files(20_000, 20_000).severity is Severity.OK
    only([limits.files(1024, 20_000)], "warning", "1024 files")
    only([limits.files(8192, 8192)], "warning", "8192 if it asks")
    only([limits.files(256, 256)], "error", "256 files")
    only([limits.processes(100)], "warning", "100 threads")
    assert limits.processes(-1).severity is Severity.OK


def test_libraries_that_are_not_those_of_the_lock(tmp_path: Path) -> None:
    assert said(versions.libraries(versions.LOCK)) == []
    lock = tmp_path / "lock"
    lock.write_text(
        "django==1.0 \\\n    --hash=sha256:00\nno-such-library==2.0\nother-library==1 ; sys_platform == 'win32'\n"
    )
    found = said(versions.libraries(lock))
    assert len(found) == 2
    assert "django is" in found[0]
    assert "no-such-library is missing" in found[1]
    [one] = versions.libraries(tmp_path / "missing")
    assert "not compared" in one.text


# ---- all of it


def test_a_check_that_hangs_or_fails_spoils_no_other() -> None:
    held = threading.Event()

    def hang(_: Config) -> Iterator[Finding]:
        yield good("begun")
        held.wait(60)

    def fail(_: Config) -> Iterator[Finding]:
        raise ValueError("a secret")
        yield

    def pass_(_: Config) -> Iterator[Finding]:
        yield good("fine")

    try:
        found = doctor.run_all({"hang": hang, "fail": fail, "pass": pass_}, load({}), seconds=1.0)
    finally:
        held.set()
    assert [one.severity for one in found["hang"]] == [Severity.OK, Severity.ERROR]
    assert [one.text for one in found["fail"]] == ["The check itself failed: ValueError"]
    assert [one.text for one in found["pass"]] == ["fine"]


def test_the_status_is_that_of_the_worst_finding(capsys: pytest.CaptureFixture[str]) -> None:
    found = {"a": [good("fine")], "b": [warning("odd", "Mend it.")]}
    assert report({"a": found["a"]}, as_json=False) == 0
    assert report(found, as_json=False) == 1
    assert "warning  b            odd\n" in (text := capsys.readouterr().out)
    assert "-> Mend it.\n0 errors, 1 warnings" in text
    assert report(found | {"c": [error("bad", "Now.")]}, as_json=True) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["checks"]["c"] == [{"severity": "ERROR", "text": "bad", "do": "Now."}]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_each_probe_has_its_function_and_its_sentence(probe: Probe) -> None:
    assert inspect.isgeneratorfunction(probe.load())
    assert not probe.about.endswith(".")
    assert NAMES.count(probe.name) == 1


def test_a_new_probe_is_one_record(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of the command, its report and the table of the documentation have it."""
    added = (*PROBES, Probe("new", "disk:check", "something new"))
    monkeypatch.setattr(doctor, "PROBES", added)
    monkeypatch.setattr(drawn_probes, "PROBES", added)
    assert list(doctor._checks(["new"], "")) == ["new"]
    assert drawn_probes.doctor().endswith("| `new` | something new |")
