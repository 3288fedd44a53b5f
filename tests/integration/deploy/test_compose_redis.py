"""The Redis of docker-compose.yml: the command of its container, with a real server in place of the image's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.redis import Redis
from tests.unit.deploy.test_compose import document
from tests.waiting import eventually

PASSWORD = "a password of hexadecimal digits".replace(" ", "0")


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    (tmp_path / "password").write_text(PASSWORD + "\n")
    program = tmp_path / "bin" / "redis-server"
    program.parent.mkdir()
    real = Redis(tmp_path).program.path
    program.write_text(f'#!/bin/sh\nexec {real} "$@" --port {port} --bind 127.0.0.1 --dir {tmp_path}\n')
    program.chmod(0o755)
    words = [word.replace("$$", "$") for word in document()["services"]["redis"]["command"]]
    words[2] = words[2].replace("/run/secrets/redis_password", str(tmp_path / "password"))
    words[2] = words[2].replace("/tmp/redis.conf", str(tmp_path / "redis.conf"))
    log = tmp_path / "log"
    environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    process = spawn(words, log=log, env=environ)
    try:
        eventually(lambda: process.poll() is not None or b"Ready to accept connections" in log.read_bytes())
        assert process.poll() is None, log.read_text()
        yield port
    finally:
        stop(process)


def test_only_clients_with_the_password_use_it_and_none_of_them_rules_it(port: int, tmp_path: Path) -> None:
    with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    with redis.Redis(port=port, password=PASSWORD) as client:
        assert client.set("key", "value")
        assert client.lpush("list", "a") == 1
        assert client.publish("channel", "message") == 0
        assert client.info("server")["redis_version"]
        for words in (
            ("CONFIG", "GET", "*"),
            ("FLUSHALL",),
            ("CLIENT", "LIST"),
            ("ACL", "LIST"),
            ("DEBUG", "SLEEP", "0"),
        ):
            with pytest.raises(redis.ResponseError, match=r"no permissions|not allowed"):
                client.execute_command(*words)
    assert (tmp_path / "redis.conf").stat().st_mode & 0o777 == 0o600
