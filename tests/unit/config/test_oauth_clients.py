"""WAYBILL_OAUTH_CLIENTS: how the OAuth servers of endpoints know this service."""

from __future__ import annotations

from typing import Any

import pytest

from identity.issuers import oauth
from identity.issuers.oauth_clients import OAuthClient, client_for, clients_of
from transferapi.config import ConfigError, load

WORD = "hunter2hunter2"


def test_a_line_shows_as_whom_one_server_knows_us() -> None:
    text = f"""
    # comes first
    https://OAuth.example.org:443/oauth2/ oa4mp:/client_id/1234 {WORD}

    https://other.example.org:8443 public-one
    """
    assert clients_of(text) == {
        "https://oauth.example.org/oauth2": OAuthClient("oa4mp:/client_id/1234", WORD),
        "https://other.example.org:8443": OAuthClient("public-one"),
    }
    assert WORD not in repr(clients_of(text))


def test_to_all_others_we_are_the_address_of_this_service(settings: Any) -> None:
    settings.PUBLIC_URL = "https://waybill.example.org"
    settings.OAUTH_CLIENTS = clients_of(f"https://a.example.org/oauth2 one {WORD}")
    assert client_for(oauth.parse_server("https://A.example.org/oauth2/")) == OAuthClient("one", WORD)
    assert client_for(oauth.parse_server("https://a.example.org")) == OAuthClient("https://waybill.example.org")


@pytest.mark.parametrize(
    "line",
    [
        "https://a.example.org",
        f"https://a.example.org id {WORD} more",
        f"oauth.example.org id {WORD}",
        f"ftp://a.example.org id {WORD}",
        f"https://me:{WORD}@a.example.org id",
        f"https://a.example.org/?{WORD} id",
    ],
)
def test_a_wrong_line_stops_the_start_with_its_number_and_nothing_of_it(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"WAYBILL_OAUTH_CLIENTS": f"https://fine.example.org id\n{line}\n"})
    assert "WAYBILL_OAUTH_CLIENTS: line 2" in str(caught.value)
    assert WORD not in str(caught.value)
