"""The access line of each request, and the lines of a real worker and a real web server."""

from __future__ import annotations

import http.client
import json
import logging
import re
import urllib.request
import uuid
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.models import Endpoint
from identity import tokens
from identity.models import User
from tests.integration.cast import submit
from tests.integration.web.web_server import web_server
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


def test_requests_refused_by_their_head_are_counted_and_have_the_id_of_the_front_server(
    postgres: Postgres, redis_server: Redis, tmp_path: Path
) -> None:
    front = {"WAYBILL_FRONT_SERVERS": "127.0.0.1/32", "WAYBILL_MONITORS": "192.0.2.0/24"}
    with web_server(postgres, redis_server, tmp_path, "--workers", "1", **front) as port:
        for number in range(3):
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            asked.putrequest("POST", "/v0.10/transfer")
            asked.putheader("X-Forwarded-For", "192.0.2.7")
            asked.putheader("X-Request-Id", f"of-the-front-{number}")
            asked.putheader("Transfer-Encoding", "chunked")
            asked.endheaders(b"0\r\n\r\n")
            answer = asked.getresponse()
            document = json.loads(answer.read())
            assert (answer.status, document["request_id"]) == (411, f"of-the-front-{number}")
            asked.close()
        scraped = get(port, "/metrics")
    assert 'waybill_requests_refused_early_total{status="411"} 3.0' in scraped
    [line] = [line for line in (tmp_path / "web.log").read_text().splitlines() if "of-the-front-0" in line]
    assert re.search(r"POST .* 411 .*client=192\.0\.2\.7", line), line


def get(port: int, path: str) -> str:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"X-Forwarded-For": "192.0.2.7"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    ("fronts", "header", "taken"),
    [
        (["127.0.0.1/32"], "0123456789abcdef0123456789abcdef", True),
        (["127.0.0.1/32"], "7f9c24e5-2b1d-4c7e-9a55-0c3a4f2f9d10", True),
        (["127.0.0.1/32"], "short", False),
        (["127.0.0.1/32"], "x" * 65, False),
        (["127.0.0.1/32"], "two-of-them,two-of-them", False),
        (["127.0.0.1/32"], "forged request=other", False),
        (["192.0.2.1/32"], "0123456789abcdef0123456789abcdef", False),
        ([], "0123456789abcdef0123456789abcdef", False),
    ],
)
def test_the_id_of_a_request_is_that_of_a_trusted_front_server(
    client: Client, lines: list[dict[str, str]], settings: Any, fronts: list[str], header: str, taken: bool
) -> None:
    settings.FRONT_SERVERS = tuple(ip_network(one) for one in fronts)
    answer = client.get("/v0.10/task_list", headers={"X-Request-Id": header})
    assert lines[0]["request"] == answer.json()["request_id"]
    assert (lines[0]["request"] == header) is taken
