"""The servers of the test session: started when the first test needs them, stopped at its end."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_django
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.conf import settings
from django.core.signals import setting_changed
from django.db import connections

from deploy.endpoint.authority import CertificateFiles
from deploy.endpoint.toolkit import SERVER
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.addresses.openings import parse_openings
from identity.vault.keys import new_key, parse_keys
from tests import forking, kept_keys, real_clients
from tests.database import delete_rows_in_place_of_truncating
from tests.durations import Recorder
from tests.gridftp import myproxy, toolkit
from tests.gridftp.authority import Authority, write_gridmap
from tests.gridftp.myproxy import MyProxyServer
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import GsiFiles, ToolkitServer, hand_over, session_account
from tests.identity_providers.oauth_server import CONFIDENTIAL, OAuthSite
from tests.memory import folder_in_memory
from tests.schedule import UnitScheduling
from tests.schema_copy import TEMPLATE, SchemaCopy
from tests.servers import front_server, ssh_clients
from transferapi.config import CHECKOUT
from transferapi.config.servers import broker_url, database

HOW_TO_GET_THE_TOOLKIT = (
    f"The tests against the Grid Community Toolkit's servers did not run: `{SERVER}` is not installed. "
    "To get it: sudo deploy/endpoint/install-toolkit.sh"
)
HOW_TO_GET_THE_CLIENTS = (
    "The tests with the real clients did not run: they are not installed. "
    "To get them: tests/clients/install.sh .clients"
)
HOW_TO_GET_NGINX = (
    "The tests of the server in front did not run: nginx is not installed. To get it: tests/install-nginx.sh"
)
HOW_TO_GET_HAPROXY = "The tests of HAProxy in front did not run: it is not installed. To get it: tests/install-nginx.sh"
HOW_TO_GET_THE_SSH_CLIENTS = (
    "The tests with the ssh clients of others did not run: they are not all installed. "
    "To get them: tests/install-tools.sh"
)
_own_folder: Path | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Configure the service, and the folder of this run.

    `tmp_path` lies in a folder of this run alone: servers of root's run as another account, and the folder that pytest
    shares among runs is closed to others anew whenever one begins.
    """
    _configure_service()
    # The time that an example takes says more about the machine than about the code.
    hypothesis.settings.register_profile("waybill", deadline=None)
    hypothesis.settings.load_profile("waybill")
    delete_rows_in_place_of_truncating()
    forking.install()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config))
    global _own_folder
    if config.option.basetemp is None:
        _own_folder = Path(tempfile.mkdtemp(prefix="waybill-pytest-"))
        config.option.basetemp = str(_own_folder / "runs")


def _configure_service() -> None:
    settings.SECRET_KEY = secrets.token_urlsafe(48)
    settings.VAULT_KEYS = parse_keys(new_key())
    # A command that a test calls would let the log of this process go to the captured output of that test. Each line
    # after it would be an error with a traceback: 7 % of the time of tests/integration/rest.
    settings.LOGGING_CONFIG = None
    # Tests may send any number of requests, except those of the rate limit itself.
    settings.RATE_LIMIT = 0


def pytest_sessionstart(session: pytest.Session) -> None:
    cache = getattr(session.config, "cache", None)
    if cache is not None and os.access(keys := cache.mkdir("waybill-keys"), os.W_OK):
        kept_keys.keep_in(Path(keys))
    key = kept_keys.rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    settings.OAUTH2_PROVIDER["OIDC_RSA_PRIVATE_KEY"] = key.decode()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling:
    return UnitScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """Keep the files of a run that failed."""
    forking.stop()
    if _own_folder is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(_own_folder, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector visit neither modules nor tests, and run less often: an eighth less processor time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


NEEDS = {
    "toolkit": (toolkit.installed, HOW_TO_GET_THE_TOOLKIT),
    "real_clients": (real_clients.installed, HOW_TO_GET_THE_CLIENTS),
    "nginx": (front_server.installed, HOW_TO_GET_NGINX),
    "haproxy": (front_server.haproxy_installed, HOW_TO_GET_HAPROXY),
    "ssh_clients": (ssh_clients.installed, HOW_TO_GET_THE_SSH_CLIENTS),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose servers or clients are not installed; in CI they fail, so that the gap is seen."""
    for marker, (is_installed, how) in NEEDS.items():
        wanting = [item for item in items if item.get_closest_marker(marker)]
        if not wanting or is_installed():
            continue
        if os.environ.get("CI") == "true":
            raise pytest.UsageError(how)
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=how))


UNIT = CHECKOUT / "tests" / "unit"
_ENVIRONMENT = pytest.StashKey[dict[str, str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    forking.allowed = not (item.get_closest_marker("own_interpreter") or UNIT in item.path.parents)
    item.stash[_ENVIRONMENT] = dict(os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves a variable in this process: programs of later tests would use its database, say."""
    yield
    before, after = item.stash[_ENVIRONMENT], dict(os.environ)
    names = (before.keys() | after.keys()) - {"PYTEST_CURRENT_TEST"}
    changed = sorted(name for name in names if before.get(name) != after.get(name))
    if changed:
        os.environ.clear()
        os.environ.update(before)
        pytest.fail(f"the test changed variables of its own process: {', '.join(changed)}", pytrace=False)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print how to install what was missed after everything else, so that these are the last lines of the output."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = {str(report.longrepr) for report in reporter.stats.get("skipped", [])} if reporter else set()
    for _, how in NEEDS.values():
        if any(how in reason for reason in skipped):
            sys.stdout.write(how + "\n")


@pytest.fixture
def loopback_opened(settings: Any) -> None:
    """Endpoints of this process may have servers on this machine."""
    settings.ALLOW_TARGETS = parse_openings("127.0.0.0/8")


@pytest.fixture(scope="session")
def stack_home() -> Iterator[Path]:
    """A short temporary folder that the unprivileged account of PostgreSQL can pass through."""
    with folder_in_memory("waybill-tests-", 0o711) as home:
        yield home


@pytest.fixture(scope="session")
def postgres(stack_home: Path) -> Iterator[Postgres]:
    """One real PostgreSQL for the whole session."""
    server = Postgres(stack_home, durable=False, max_connections=200)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server(stack_home: Path) -> Iterator[Redis]:
    """One real Redis for the whole session; Django's cache and Celery's broker point at it."""
    server = Redis(stack_home)
    server.start()
    settings.REDIS_URL = server.url()
    settings.CELERY_BROKER_URL = broker_url(server.url())
    settings.CACHES["default"]["LOCATION"] = server.url()
    setting_changed.send(sender=None, setting="CACHES", value=settings.CACHES, enter=True)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    postgres: Postgres,
    schema_copy: SchemaCopy,
    django_db_blocker: pytest_django.DjangoDbBlocker,
    django_db_modify_db_settings_parallel_suffix: None,
) -> None:
    """Called by pytest-django just before the test database is made: only then is a server needed."""
    for settings_dict in (settings.DATABASES["default"], connections["default"].settings_dict):
        for name, value in database(postgres.url()).items():
            if name in ("NAME", "USER", "PASSWORD", "HOST", "PORT"):
                settings_dict[name] = value
    with django_db_blocker.unblock():
        schema_copy.make_template()
    connections["default"].settings_dict["TEST"] |= {"TEMPLATE": TEMPLATE, "MIGRATE": False}


@pytest.fixture(scope="session")
def schema_copy(request: pytest.FixtureRequest, stack_home: Path, postgres: Postgres) -> SchemaCopy:
    """The copy in the cache of pytest, which later runs use. This process has its own where there is no cache
    (`-p no:cacheprovider`), or where the checkout belongs to another account."""
    cache = getattr(request.config, "cache", None)
    if cache is not None and os.access(folder := cache.mkdir("waybill-schema"), os.W_OK):
        return SchemaCopy(Path(folder), postgres)
    own = stack_home / "schema"
    own.mkdir()
    return SchemaCopy(own, postgres)


@pytest.fixture(scope="session")
def give_schema(schema_copy: SchemaCopy, django_db_modify_db_settings: None) -> Callable[[Path], object]:
    """`instance(before=give_schema)`: an instance that finds its tables, which it would make in 9 s of processor.

    The journeys of test_make_up.py begin with nothing, as people do.
    """
    return schema_copy.give_to


@pytest.fixture
def database_url(postgres: Postgres, db: None) -> str:
    """The DATABASE_URL of the test database, for processes that a test starts."""
    return postgres.url(str(connections["default"].settings_dict["NAME"]))


@pytest.fixture
def toolkit_server_factory() -> Iterator[Callable[..., ToolkitServer]]:
    """Start the toolkit's server over a folder: `toolkit_server_factory(root, *extra_arguments)`.

    At the start, the files in the folder change their owner to the account of the server's sessions.
    """
    servers = ExitStack()

    def start(root: Path, *extra: str) -> ToolkitServer:
        hand_over(root, stop_at=Path(tempfile.gettempdir()))
        return servers.enter_context(ToolkitServer(root, *extra))

    with servers:
        yield start


@pytest.fixture(scope="session")
def grid_home() -> Iterator[Path]:
    """Folder for the session's authorities and servers. Other accounts may traverse it, as server sessions must."""
    home = Path(tempfile.mkdtemp(prefix="waybill-grid-"))
    home.chmod(0o711)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def authority(grid_home: Path) -> Authority:
    """The authority that servers and users of the tests have their certificates from; trusts itself only."""
    return Authority(grid_home / "authority", name="Authority", namespace="/O=Grid/OU=Waybill Test")


@pytest.fixture(scope="session")
def other_authority(grid_home: Path) -> Authority:
    """Another site's authority, with names of its own, that the first one knows nothing of."""
    return Authority(grid_home / "other", name="Other Authority", namespace="/O=Elsewhere/OU=Waybill Test")


@pytest.fixture(scope="session")
def identity_of(authority: Authority) -> Callable[..., CertificateFiles]:
    """`identity_of("alice")` or `identity_of("alice", other_authority)`: one long-lived certificate for each name."""
    known: dict[tuple[str, Path], CertificateFiles] = {}

    def find(name: str, issuer: Authority = authority) -> CertificateFiles:
        key = (name, issuer.folder)
        if key not in known:
            known[key] = issuer.issue_user(name)
        return known[key]

    return find


@pytest.fixture
def alices(identity_of: Callable[..., CertificateFiles]) -> CertificateFiles:
    """alice's certificate and key."""
    return identity_of("alice")


@pytest.fixture
def trusting(settings: Any, authority: Authority) -> None:
    """The service believes the authority of the tests."""
    settings.CERTIFICATES = authority.certificates


@pytest.fixture(scope="session")
def host_of() -> Callable[[Authority], CertificateFiles]:
    """An authority's certificate for servers of this machine: localhost and 127.0.0.1."""
    known: dict[Path, CertificateFiles] = {}

    def find(issuer: Authority) -> CertificateFiles:
        if issuer.folder not in known:
            known[issuer.folder] = issuer.issue_host(["localhost", "127.0.0.1"])
        return known[issuer.folder]

    return find


@pytest.fixture
def gsi_server_factory(
    authority: Authority, host_of: Callable[[Authority], CertificateFiles]
) -> Iterator[Callable[..., ToolkitServer]]:
    """Start the toolkit's server with GSI over a folder: `gsi_server_factory(root, *extra_arguments)`.

    `issuer` is the authority that its host certificate is from and that it trusts (default: `authority`); `subjects`
    are those that may log in (default: alice, bob and carol of that authority), `host` is another host certificate.
    Sessions run as `nobody` when we are root (the folder is handed over to it), else as ourselves.
    """
    servers = ExitStack()

    def start(
        root: Path,
        *extra: str,
        issuer: Authority = authority,
        subjects: Iterable[str] | None = None,
        host: CertificateFiles | None = None,
    ) -> ToolkitServer:
        if subjects is None:
            subjects = [issuer.user_subject(name) for name in ("alice", "bob", "carol")]
        gridmap = issuer.folder / f"gridmap-{secrets.token_hex(4)}"
        write_gridmap(gridmap, dict.fromkeys(subjects, session_account()))
        hand_over(root, stop_at=Path(tempfile.gettempdir()))
        security = GsiFiles(issuer.certificates, host or host_of(issuer), gridmap)
        return servers.enter_context(ToolkitServer(root, *extra, security=security))

    with servers:
        yield start


@pytest.fixture
def myproxy_server_factory(
    authority: Authority, host_of: Callable[[Authority], CertificateFiles]
) -> Iterator[Callable[..., MyProxyServer]]:
    """Start a MyProxy server: `myproxy_server_factory()` keeps what is left with it (`.keep(...)`).

    `accounts={"carol": "her passphrase"}` makes it an online CA of `issuer` behind PAM too; see MyProxyServer.
    """
    servers = ExitStack()

    def start(
        *,
        issuer: Authority = authority,
        accounts: dict[str, str] | None = None,
        host: CertificateFiles | None = None,
        port: int = 0,
    ) -> MyProxyServer:
        if accounts and not myproxy.can_show_pam():
            pytest.skip("this machine does not let us give a server its own PAM service")
        folder = Path(tempfile.mkdtemp(prefix="myproxy-", dir=issuer.folder))
        return servers.enter_context(
            MyProxyServer(folder, issuer, host or host_of(issuer), accounts=accounts, port=port)
        )

    with servers:
        yield start


@pytest.fixture
def myproxy_server(myproxy_server_factory: Callable[..., MyProxyServer]) -> MyProxyServer:
    """One with nothing in it yet, without an online CA."""
    return myproxy_server_factory()


@pytest.fixture(scope="session")
def oauth_site(grid_home: Path, authority: Authority) -> Iterator[OAuthSite]:
    """An OAuth server whose certificates the session's authority signs; it knows Waybill as it is by default, and as a
    client with a secret."""
    folder = grid_home / "oauth"
    folder.mkdir(mode=0o700)
    clients = {settings.PUBLIC_URL: "", CONFIDENTIAL: secrets.token_urlsafe(16)}
    redirect_uri = f"{settings.PUBLIC_URL}/oauth/callback"
    with OAuthSite(folder, authority, redirect_uri=redirect_uri, clients=clients) as site:
        yield site


@pytest.fixture
def ssh_server_factory(grid_home: Path) -> Iterator[Callable[..., SshServer]]:
    """Start an sshd with the toolkit's server behind it: `ssh_server_factory(*lines_of_configuration, **options)`.

    Its one account is ours; when we are root, the GridFTP server behind it runs as the account that others' do.
    """
    servers = ExitStack()

    def start(*extra: str, **options: Any) -> SshServer:
        folder = grid_home / f"sshd-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o711)
        return servers.enter_context(SshServer(folder, *extra, **options))

    with servers:
        yield start


@pytest.fixture
def ssh_server(ssh_server_factory: Callable[..., SshServer]) -> SshServer:
    return ssh_server_factory()
