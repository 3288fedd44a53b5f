"""The access line of each request, and the lines of a real worker and a real web server."""

from __future__ import annotations

import json
import logging
import re
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.models import Endpoint
from identity import tokens
from identity.models import User
from tests.integration.cast import submit
from tests.integration.web_server import web_server
from transferapi.logs.formats import JsonFormat

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lines() -> Iterator[list[dict[str, str]]]:
    """The access lines as they are written, in JSON."""
    written: list[dict[str, str]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(json.loads(JsonFormat().format(record)))

    handler, log = Keep(), logging.getLogger("waybill.access")
    log.addHandler(handler)
    yield written
    log.removeHandler(handler)


def test_a_request_of_a_user_about_a_task_is_one_line(
    client: Client, alice: User, ep1: Endpoint, ep2: Endpoint, lines: list[dict[str, str]]
) -> None:
    task = submit(alice, ep1, ep2)
    token = tokens.issue(alice, "test")
    answer = client.get(f"/v0.10/task/{task.pk}?fields=status", headers={"Authorization": f"Bearer {token}"})
    [line] = lines
    assert re.fullmatch(r"GET /v0\.10/task/<\S+> 200 in \d+ ms", line["message"]), line
    assert (line["user"], line["task"], line["client"]) == ("alice", str(task.pk), "127.0.0.1")
    assert line["request"]
    assert token not in json.dumps(line)
    assert answer.status_code == 200


def test_errors_name_the_request_of_the_line(client: Client, lines: list[dict[str, str]]) -> None:
    answer = client.get(f"/v0.10/task/{uuid.uuid4()}")
    assert (lines[0]["request"], answer.json()["code"]) == (
        answer.json()["request_id"],
        "ClientError.AuthenticationFailed",
    )
    assert "user" not in lines[0]


@pytest.mark.parametrize(
    "path", ["/recover/SECRETSECRETSECRETSECRET", "/oauth/callback?code=SECRET", "/SECRET", "/?token=SECRET"]
)
def test_no_line_holds_a_secret_of_a_path_or_a_query(
    client: Client, path: str, lines: list[dict[str, str]], capfd: pytest.CaptureFixture[str]
) -> None:
    client.get(path)
    assert len(lines) == 1
    assert "SECRET" not in json.dumps(lines)
    assert "SECRET" not in capfd.readouterr().err


def test_the_web_server_writes_json_lines(postgres: Postgres, redis_server: Redis, tmp_path: Path) -> None:
    with web_server(postgres, redis_server, tmp_path, WAYBILL_LOG_FORMAT="json") as port:
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
                answer.read()
        written = [json.loads(line) for line in (tmp_path / "web.log").read_text().splitlines()]
    assert {"gunicorn.error", "waybill.access"} <= {one["logger"] for one in written}
    assert [one["message"].split(" in ")[0] for one in written if one["logger"] == "waybill.access"] == [
        "GET / 200"
    ] * 3
