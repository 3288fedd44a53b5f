"""SCIM through the web server: long bodies, strangers, and requests at the same time."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from identity.models import Membership, ScimUser, User
from identity.scim import clients
from tests.integration.web.web_server import web_server
from transferapi.rest.scim.errors import MEDIA_TYPE

pytestmark = pytest.mark.django_db(transaction=True)


def test_long_bodies_strangers_and_concurrent_requests(
    postgres: Postgres, django_db_setup: None, redis_server: Redis, tmp_path: Path
) -> None:
    token = clients.make_token("entra").value
    people = User.objects.bulk_create([User(username=f"u{number}") for number in range(3000)])
    directory = clients.authenticate(token)
    assert directory is not None
    ScimUser.objects.bulk_create([ScimUser(user=one, client=directory) for one in people])

    with web_server(postgres, redis_server, tmp_path) as port:

        def send(body: Any, path: str, shown: str = token) -> tuple[int, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {"Authorization": f"Bearer {shown}", "Content-Type": MEDIA_TYPE}
            connection.request("POST", f"/scim/v2/{path}", json.dumps(body), headers)
            answer = connection.getresponse()
            found = json.loads(answer.read())
            connection.close()
            return answer.status, found

        group = {"displayName": "Physics", "members": [{"value": str(one.pk)} for one in people]}
        status, found = send(group, "Groups")
        assert (status, len(found["members"])) == (201, 3000)
        assert send(group, "Groups", "wbscim_wrong")[0] == 401
        assert Membership.objects.count() == 3000

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: send({"userName": "carol"}, "Users"), range(8)))
        assert Counter(status for status, _ in answers) == {201: 1, 409: 7}
        assert {found.get("scimType") for status, found in answers if status == 409} == {"uniqueness"}
    assert User.objects.filter(username="carol").count() == 1
