"""A file onto itself, by two endpoints of one server, is refused at its submission."""

from __future__ import annotations

import pytest

from endpoints import registry
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit
from transferapi.tasks.errors import RequestError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("loopback_opened")]


def endpoint(owner: User, name: str, *addresses: str) -> Endpoint:
    specs = [registry.ServerSpec.parse(address, "") for address in addresses]
    return registry.create(owner, {"name": name, "display_name": name}, specs)


@pytest.mark.parametrize("other", ["ftp://127.0.0.1:2811", "ftp://localhost:2811", "ftp://LOCALHOST:2811"])
@pytest.mark.parametrize("paths", [("/data/f", "/data/f"), ("/data/", "/data/"), ("/data/", "/data/copy/")])
def test_one_server_under_two_names(alice: User, other: str, paths: tuple[str, str]) -> None:
    first = endpoint(alice, "first", "ftp://127.0.0.1:2811")
    second = endpoint(alice, "second", "ftp://127.0.0.9:2812", other)
    with pytest.raises(RequestError) as refused:
        submit(alice, first, second, paths)
    assert refused.value.field == "DATA[0].destination_path"


@pytest.mark.parametrize("other", ["ftp://127.0.0.2:2811", "ftp://127.0.0.1:2812", "ftp://no-such-host.invalid:2811"])
def test_other_servers_get_the_same_path(alice: User, other: str) -> None:
    first, second = endpoint(alice, "first", "ftp://127.0.0.1:2811"), endpoint(alice, "second", other)
    submit(alice, first, second, ("/data/f", "/data/f"))


def test_other_paths_of_one_server_are_copied(alice: User) -> None:
    first = endpoint(alice, "first", "ftp://127.0.0.1:2811")
    second = endpoint(alice, "second", "ftp://localhost:2811")
    submit(alice, first, second, ("/data/f", "/data/g"))
    submit(alice, first, second, ("/data/sub/", "/data/"))
