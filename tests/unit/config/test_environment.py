"""The environment: what is refused, and that secrets stay secret."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_elliptic_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from deploy import cli
from deploy.stack.home import new_rsa_key
from endpoints.addresses.openings import parse_openings
from transferapi.config import CHECKOUT, KNOWN, SECRETS, ConfigError, load
from transferapi.config.secret_files import MAX_OCTETS
from transferapi.config.servers import (
    SMALL_STATEMENTS,
    TIME_LIMITS,
    broker_options,
    broker_tls,
    broker_url,
    database,
    sentinels,
)
from transferapi.outages import hosts

SECRET = "s3cret-" + "x" * 40


def problems(**environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(environ)
    return str(caught.value)


def problems_if_any(**environ: str) -> str:
    try:
        load(environ)
    except ConfigError as error:
        return str(error)
    return ""


def test_an_empty_environment_gives_the_defaults() -> None:
    config = load({})
    assert config.port == 8000
    assert config.home.name == ".waybill"
    assert config.public_url == "http://127.0.0.1:8000"
    assert config.secret_key is None


def test_how_long_a_myproxy_server_may_take_has_a_bound() -> None:
    assert load({}).myproxy_seconds == 20
    assert load({"WAYBILL_MYPROXY_SECONDS": "50"}).myproxy_seconds == 50
    for wrong in ("0", "591", "1.5", "-1", "long", "٣"):
        assert "WAYBILL_MYPROXY_SECONDS: a whole number of seconds from 1 to 590" in problems(
            WAYBILL_MYPROXY_SECONDS=wrong
        )
    assert "WAYBILL_MAX_SUBMISSION: the web server takes" in problems(WAYBILL_MAX_SUBMISSION="268435457")
    assert "WAYBILL_MAX_PENDING_TASKS: a whole number" in problems(WAYBILL_MAX_PENDING_TASKS="0")
    assert "at least 10 less than WAYBILL_REQUEST_SECONDS" in problems(WAYBILL_MYPROXY_SECONDS="51")
    assert load({"WAYBILL_MYPROXY_SECONDS": "90", "WAYBILL_REQUEST_SECONDS": "100"}).myproxy_seconds == 90
    assert load({"WAYBILL_REQUEST_SECONDS": "20"}).operation_seconds == 10


def test_a_myproxy_server_gives_no_names_of_this_service() -> None:
    text = "myproxy.example.org:7513 domain=example.org label=The Lab"
    [server] = load({"WAYBILL_MYPROXY_SIGN_IN": text}).myproxy_sign_in.values()
    assert (server.id, server.domain, server.label) == ("myproxy:myproxy.example.org:7513", "example.org", "The Lab")
    said = problems(WAYBILL_MYPROXY_SIGN_IN=text, WAYBILL_PUBLIC_URL="https://example.org")
    assert "WAYBILL_MYPROXY_SIGN_IN: a server has the domain of this service" in said
    assert "a server is HOST[:PORT]" in problems(WAYBILL_MYPROXY_SIGN_IN="a b")


def test_everything_that_may_be_said_is_read() -> None:
    config = load(
        {
            "WAYBILL_HOME": "/srv/waybill",
            "WAYBILL_PORT": "9000",
            "WAYBILL_SECRET_KEY": SECRET,
            "WAYBILL_ALLOW_TARGETS": "127.0.0.1:5061, 10.0.0.0/8",
            "WAYBILL_ALLOW_WEBHOOKS": "10.1.2.3:8443",
            "WAYBILL_DEBUG": "1",
            "WAYBILL_HOSTS": "data.example.org, localhost",
            "WAYBILL_PUBLIC_URL": "https://data.example.org/",
            "WAYBILL_LOG_LEVEL": "WARNING",
        }
    )
    assert config.home == Path("/srv/waybill")
    assert config.allow_targets == parse_openings("127.0.0.1:5061,10.0.0.0/8")
    assert config.allow_webhooks == parse_openings("10.1.2.3:8443")
    assert (config.port, config.debug, config.log_level) == (9000, True, "WARNING")
    assert config.hosts == ("data.example.org", "localhost")
    assert config.public_url == "https://data.example.org"


def test_an_unknown_variable_is_refused_with_the_list_of_the_known_ones() -> None:
    text = problems(WAYBILL_PROT="9000")
    assert "WAYBILL_PROT" in text
    assert all(name in text for name in KNOWN)


def test_all_problems_are_reported_at_once() -> None:
    text = problems(WAYBILL_PORT="no", WAYBILL_DEBUG="yes", DATABASE_URL="mysql://localhost/x")
    assert all(name in text for name in ("WAYBILL_PORT", "WAYBILL_DEBUG", "DATABASE_URL"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WAYBILL_PORT", "0"),
        ("WAYBILL_PORT", "65536"),
        ("WAYBILL_PORT", "²"),
        ("WAYBILL_PORT", "-1"),
        ("WAYBILL_HOME", "a\nb"),
        ("WAYBILL_SECRET_KEY", "short"),
        ("WAYBILL_SECRET_KEY_FILE", "/nonexistent/key"),
        ("WAYBILL_ALLOW_TARGETS", "10.0.0.1/8"),
        ("WAYBILL_ALLOW_TARGETS", "localhost"),
        ("WAYBILL_ALLOW_WEBHOOKS", "10.0.0.1:0"),
        ("WAYBILL_PUBLIC_URL", "data.example.org"),
        ("WAYBILL_LOG_LEVEL", "LOUD"),
        ("DATABASE_URL", "postgresql://localhost"),
        ("DATABASE_URL", "postgresql://localhost:port/name"),
        ("REDIS_URL", "http://localhost"),
        ("REDIS_URL", "unix://"),
        ("REDIS_URL", "redis://queue:99999/0"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    assert name.removesuffix("_FILE") in problems(**{name: value})


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET + "\n")
    config = load({"WAYBILL_SECRET_KEY_FILE": str(tmp_path / "key")})
    assert config.secret_key is not None
    assert config.secret_key.value == SECRET


@pytest.mark.parametrize("name", SECRETS)
def test_a_file_of_a_secret_that_cannot_serve_is_named_and_never_shown(name: str, tmp_path: Path) -> None:
    """With each secret: what is wrong with the file, its variable, and nothing of its content."""
    file, content = tmp_path / "file", "hunter2-" * 9
    given = {f"{name}_FILE": str(file)}

    def refused(because: str, **more: str) -> None:
        text = problems(**given, **more)
        assert (because in text, name in text, content[:8] in text) == (True, True, False), text

    refused(f"{name}_FILE: the file {file} cannot be read: No such file or directory")
    os.mkfifo(file)
    refused(f"{file} is not a file")
    file.unlink()
    file.write_text(content)
    refused("given twice", **{name: content})
    file.write_text(content * (MAX_OCTETS // len(content) + 1))
    refused(f"has more than {MAX_OCTETS} octets")
    file.write_bytes(content.encode() + b"\xff")
    refused("is not a text in UTF-8")
    file.write_text(f"{content}\0")
    refused("has a NUL character")
    file.write_text(" \n")
    refused("is empty")
    file.unlink()
    file.symlink_to(file)
    refused("Too many levels of symbolic links")


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(
    "text", ["{}", "x://{}", "postgresql://a:{}@h:{}/db", "redis://:{}@\u2100/0", "smtp://{}:{}@[::1"]
)
def test_a_secret_that_is_wrong_is_not_shown(name: str, text: str, tmp_path: Path) -> None:
    """Addresses of Python's own parser would be in its errors."""
    (tmp_path / "file").write_text(text.format("hunter2", "hunter2"))
    said = problems_if_any(**{f"{name}_FILE": str(tmp_path / "file")})
    assert "hunter2" not in said
    assert name in said or not said


def test_passwords_may_come_apart_from_their_addresses(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@ss:w/rd%\n")
    given = {"WAYBILL_DATABASE_PASSWORD_FILE": str(tmp_path / "password"), "WAYBILL_REDIS_PASSWORD": "p@ss:w/rd%"}
    config = load(
        {**given, "DATABASE_URL": "postgresql://us%40er@db:5432/waybill", "REDIS_URL": "redis://queue:6379/0"}
    )
    assert config.database_url is not None
    assert config.redis_url is not None
    known = database(config.database_url.value)
    assert (known["USER"], known["PASSWORD"], known["HOST"], known["PORT"]) == ("us@er", "p@ss:w/rd%", "db", "5432")
    assert redis.ConnectionPool.from_url(config.redis_url.value).connection_kwargs["password"] == "p@ss:w/rd%"
    text = problems(**given, DATABASE_URL="postgresql://user:hunter2@db/waybill")
    assert "WAYBILL_DATABASE_PASSWORD: the address has a password, too" in text
    assert "WAYBILL_REDIS_PASSWORD: it needs REDIS_URL" in text
    assert "hunter2" not in text
    assert "more than one line" in problems(WAYBILL_REDIS_PASSWORD="a\nb", REDIS_URL="redis://queue")


def test_secrets_do_not_show_in_the_representation_of_the_configuration() -> None:
    config = load(
        {
            "WAYBILL_SECRET_KEY": SECRET,
            "DATABASE_URL": "postgresql://user:hunter2-hunter2@db/waybill",
            "REDIS_URL": "redis://:hunter2-hunter2@queue/0",
        }
    )
    for text in (repr(config), str(config), str(config.database_url), f"{config.secret_key}"):
        assert SECRET not in text
        assert "hunter2" not in text


def test_a_wrong_secret_is_not_reported_in_the_error() -> None:
    assert "hunter2" not in problems(DATABASE_URL="mysql://user:hunter2@db/waybill", WAYBILL_SECRET_KEY="hunter2")


def test_a_database_on_a_socket_and_one_on_the_network() -> None:
    socket = database("postgresql://waybill@/waybill?host=/run/post%20gres")
    assert (socket["HOST"], socket["NAME"], socket["USER"]) == ("/run/post gres", "waybill", "waybill")
    network = database("postgresql://us%40er:pa%2Fss@db.example.org:6432/name?sslmode=require")
    assert (network["HOST"], network["PORT"]) == ("db.example.org", "6432")
    assert (network["USER"], network["PASSWORD"]) == ("us@er", "pa/ss")
    options = network["OPTIONS"]
    assert isinstance(options, dict)
    assert options["sslmode"] == "require"


def test_celery_spells_the_socket_of_redis_its_own_way() -> None:
    assert broker_url("unix:///run/redis.sock?db=2") == "redis+socket:///run/redis.sock?virtual_host=2"
    assert broker_url("redis://:secret@queue:6380/1") == "redis://:secret@queue:6380/1"


def test_celery_checks_the_certificate_of_redis_unless_it_is_said_not_to() -> None:
    """Its transport would take any, without an option."""
    assert broker_url("rediss://:secret@queue/1") == "rediss://:secret@queue/1?ssl_cert_reqs=required"
    with_file = "rediss://queue/1?ssl_ca_certs=/etc/ssl/our.pem"
    assert broker_url(with_file) == f"{with_file}&ssl_cert_reqs=required"
    assert broker_url("rediss://queue/1?ssl_cert_reqs=none") == "rediss://queue/1?ssl_cert_reqs=none"


def test_a_database_may_have_several_hosts() -> None:
    found = database("postgresql://us%40er:p%2C%40@a.example.org:6432,b.example.org,[fd00::1]:6433/name")
    assert (found["HOST"], found["PORT"]) == ("a.example.org,b.example.org,fd00::1", "6432,5432,6433")
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("us@er", "p,@", "name")
    assert found["OPTIONS"]["target_session_attrs"] == "read-write"
    assert found["OPTIONS"]["connect_timeout"] == 3
    both = database("postgresql://u@a,b/name?target_session_attrs=primary&connect_timeout=4")
    assert (both["HOST"], both["PORT"]) == ("a,b", "")
    assert (both["OPTIONS"]["target_session_attrs"], both["OPTIONS"]["connect_timeout"]) == ("primary", 4)
    sockets = database("postgresql://u@/name?host=/run/a,/run/b&port=5432,5433")
    assert (sockets["HOST"], sockets["PORT"]) == ("/run/a,/run/b", "5432,5433")
    one = database("postgresql://u@a/name")["OPTIONS"]
    assert ("target_session_attrs" in one, one["connect_timeout"]) == (False, 10)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://u:hunter2@a,,b/name", "hosts are host:port with commas"),
        ("postgresql://u:hunter2@a:1:2,b/name", "hosts are host:port with commas"),
        ("postgresql://u:hunter2@a:0,b/name", "a whole number from 1 to 65535"),
        ("postgresql://u:hunter2@a,b:65536/name", "a whole number from 1 to 65535"),
        ("postgresql://u:hunter2@a,b/", "it names no database"),
        ("postgresql://u:hunter2@a,b/name?target_session_attrs=any", "read-write or primary"),
        (
            "postgresql://u:hunter2@a,b/name?connect_timeout=0",
            "connect_timeout: a whole number of seconds",
        ),
        ("postgresql://u:hunter2@/name?host=a,b,c&port=1,2", "as many ports as hosts"),
        (f"postgresql://u:hunter2@{','.join('abcdefghi')}/name", "more than 8 hosts"),
    ],
)
def test_a_wrong_list_of_hosts_is_refused_without_the_password(url: str, problem: str) -> None:
    text = problems(DATABASE_URL=url)
    assert f"DATABASE_URL: {problem}" in text or problem in text
    assert "hunter2" not in text


def test_any_host_may_be_the_first_or_alone() -> None:
    given = {"host": "a,b,c", "port": "1,2,3", "user": "u"}
    assert hosts.beginning_with(given, 0) == given
    assert hosts.beginning_with(given, 4) == {"host": "b,c,a", "port": "2,3,1", "user": "u"}
    assert hosts.beginning_with({"host": "a,b"}, 1) == {"host": "b,a"}
    assert hosts.beginning_with({"host": "a,b", "port": "5432"}, 1) == {"host": "b,a", "port": "5432"}
    assert hosts.beginning_with({"host": "a"}, 1) == {"host": "a"}
    assert hosts.of({"host": "a,b", "port": "1,2"}) == [{"host": "a", "port": "1"}, {"host": "b", "port": "2"}]
    assert hosts.of({"host": "a,b", "port": "5432"}) == [{"host": name, "port": "5432"} for name in "ab"]
    assert hosts.of({"host": "a"}) == [{"host": "a"}]


def test_sentinels_with_tls_check_certificates_if_nothing_else_is_said() -> None:
    url = "sentinel+tls://:p@a:26379,b/1?master=m&ssl_ca_certs=/ca.pem"
    found = sentinels(url)
    assert found is not None
    certificates = {"ssl_ca_certs": "/ca.pem", "ssl_cert_reqs": "required", "ssl_check_hostname": True}
    assert broker_tls(url) == certificates
    assert found.tls() == {"ssl": True, **certificates}
    assert found.tls().items() <= broker_options(url)["sentinel_kwargs"].items()
    # kombu has one name for both, and takes the certificates by `broker_use_ssl`.
    assert broker_url(url) == "sentinel://:p@a:26379/1;sentinel://:p@b:26379/1"
    unchecked = sentinels("sentinel+tls://a/?master=m&ssl_cert_reqs=none")
    assert unchecked is not None
    assert unchecked.tls() == {"ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False}
    assert broker_tls("sentinel://a/?master=m") is broker_tls("rediss://a/0") is False


def test_sentinels_are_read() -> None:
    url = "sentinel://us%40er:p%2Fw@a.example.org,[fd00::1]:26380/3?master=waybill&sentinel_password=o%26ther"
    found = sentinels(url)
    assert found is not None
    assert (found.hosts, found.master, found.database) == ((("a.example.org", 26379), ("fd00::1", 26380)), "waybill", 3)
    assert found.account() == {"username": "us@er", "password": "p/w"}
    assert found.arguments(0.25)["password"] == "o&ther"
    assert found.arguments(0.25)["socket_connect_timeout"] == 0.25
    account = "us%40er:p%2Fw"
    assert broker_url(url) == f"sentinel://{account}@a.example.org:26379/3;sentinel://{account}@[fd00::1]:26380/3"
    assert broker_options(url)["master_name"] == "waybill"
    assert broker_url("sentinel://a/?master=m") == "sentinel://a:26379/0"
    assert (sentinels("redis://a/0"), broker_options("redis://a/0")) == (None, {})


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sentinel://:hunter2@a,b/0", "it is sentinel://"),
        ("sentinel:///0?master=m", "it is sentinel://"),
        ("sentinel://:hunter2@a,b/x?master=m", "the number of a database"),
        ("sentinel://:hunter2@a,b/0?master=m&tls=1", "there may be master, sentinel_username, sentinel_password"),
        (f"sentinel://:hunter2@{','.join('abcdefghi')}/0?master=m", "more than 8 hosts"),
        ("redis://:hunter2@a,b/0", "several are Sentinels"),
        ("sentinel://:hunter2@a,b/0?master=m&ssl_ca_certs=/x", "there may be master"),
        ("sentinel+tls://:hunter2@a,b/0", "it is sentinel://"),
        ("sentinel+tls://:hunter2@a/0?master=m&ssl_cert_reqs=optional", "ssl_cert_reqs is required, or none"),
        ("redis://:hunter2@a/0?socket_timeout=1", "there may be nothing"),
        ("redis://:hunter2@a/waybill", "the number of a database"),
        ("rediss://:hunter2@a/0?ssl_cert_reqs=optional", "ssl_cert_reqs is required, or none"),
        ("rediss://:hunter2@a/0?ssl_check_hostname=maybe", "ssl_check_hostname is true or false"),
    ],
)
def test_a_wrong_address_of_redis_is_refused_without_the_password(url: str, problem: str) -> None:
    text = problems(REDIS_URL=url)
    assert problem in text
    assert "hunter2" not in text


def test_the_compose_file_passes_on_what_an_operator_may_say() -> None:
    text = (CHECKOUT / "docker-compose.yml").read_text()
    of_the_image = {"WAYBILL_HOME", "WAYBILL_PORT", "WAYBILL_EVENTS_PORT"}
    of_the_image |= {"WAYBILL_DEBUG", "WAYBILL_HOSTS", "WAYBILL_LOG_LEVEL"}
    assert [name for name in KNOWN if name not in of_the_image and name not in text] == []


def test_the_help_of_the_command_names_every_variable() -> None:
    text = cli.parser().format_help()
    assert [name for name in KNOWN if f"  {name}: " not in text] == []


def test_a_key_for_identity_tokens_is_an_rsa_key() -> None:
    def pem(key: PrivateKeyTypes, passphrase: bytes | None = None) -> str:
        closed = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, closed).decode()

    good = new_rsa_key()
    key = load({"WAYBILL_OIDC_KEY": good}).oidc_key
    assert key is not None
    assert key.value == good
    small = generate_private_key(public_exponent=65537, key_size=1024)
    for wrong in ("x", good[:-100], pem(small), pem(generate_elliptic_key(SECP256R1())), pem(small, b"secret")):
        text = problems(WAYBILL_OIDC_KEY=wrong)
        assert "WAYBILL_OIDC_KEY" in text
        assert wrong[40:80] not in text or wrong == "x"


def test_a_certificate_and_its_key_belong_together(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    for path in (chain, key):
        path.write_text("PEM")
    config = load({"WAYBILL_TLS_CERTIFICATE": str(chain), "WAYBILL_TLS_KEY": str(key)})
    assert (config.tls_certificate, config.tls_key) == (chain, key)
    assert config.public_url == "https://127.0.0.1:8000"
    for name, path in (("WAYBILL_TLS_CERTIFICATE", chain), ("WAYBILL_TLS_KEY", key)):
        assert "give both, or neither" in problems(**{name: str(path)})
    missing = problems(WAYBILL_TLS_CERTIFICATE=str(chain), WAYBILL_TLS_KEY=str(tmp_path / "nothing"))
    assert "nothing cannot be read" in missing


def test_the_page_gives_the_role_the_limits_that_a_pooler_drops() -> None:
    """PgBouncer takes no `options`, so that none of these would be in force."""
    page = (CHECKOUT / "docs" / "operate" / "external-servers.md").read_text()
    assert "ignore_startup_parameters = options\n" in page
    limits = [word for word in f"{TIME_LIMITS} {SMALL_STATEMENTS}".split() if word != "-c"]
    assert len(limits) > 4
    for limit in limits:
        assert f"ALTER ROLE waybill SET {limit.replace('=', ' = ')};" in page
