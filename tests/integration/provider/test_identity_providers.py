"""The providers of identities as programs see them: of the sign-in behind a token, and by their ids."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest

from identity import linked_identities as linked
from identity.federation.myproxy import parse_servers
from identity.federation.providers import Provider
from identity.models import Institution, LinkedIdentity, User
from identity.proven_identities import Proven
from identity.provider import identities
from tests.integration.provider import CALLBACK, make
from tests.integration.rest import Api

pytestmark = pytest.mark.django_db
PATH = "/v2/api/identity_providers"
LAB, UNIVERSITY, GONE = "oidc:https://id.lab.example", "saml:https://idp.example.edu/idp", "oidc:https://gone.example"


def link(user: User, provider: str, username: str) -> LinkedIdentity:
    return linked.link(user, Proven.of(provider, username, username, time.time()), time.time())


def institution(entity: str, name: str, *scopes: str) -> Institution:
    digest = sha256(entity.encode()).digest()
    facts = {"search_text": name, "sign_in_url": f"{entity}/sso", "certificates": [], "scopes": list(scopes)}
    return Institution.objects.create(entity_id=entity, digest=digest, name=name, read_at=datetime.now(UTC), **facts)


@pytest.fixture
def configured(settings: Any) -> None:
    lab = Provider("lab", "The Laboratory", "https://id.lab.example", "id", domain="lab.example")
    settings.PROVIDERS = {"lab": lab}
    settings.MYPROXY_SIGN_IN = parse_servers("grid.example.org domain=grid.example.org name=grid label=The Grid")
    institution("https://idp.example.edu/idp", "The University", "example.edu", "math.example.edu")
    institution("https://other.example.net/idp", "Another", "example.net")


def found(api: Api, **query: str) -> list[tuple[str, str, list[str]]]:
    answer = api.get(PATH, **query).body["identity_providers"]
    return [(one["id"], one["name"], one["domains"]) for one in answer]


@pytest.mark.usefixtures("configured")
def test_each_id_of_ones_own_identities_leads_to_a_provider(alice: User) -> None:
    link(alice, LAB, "al@lab.example")
    link(alice, UNIVERSITY, "al@example.edu")
    link(alice, GONE, "al@gone.example")
    link(alice, "myproxy:grid.example.org:7512", "al@grid.example.org")
    api = Api(alice, root="")
    shown = api.get("/v2/oauth2/userinfo").body["identity_set"]
    by_id = {one["identity_provider"]: one["username"] for one in shown}
    assert len(by_id) == 5
    answer = found(api, ids=",".join(by_id))
    assert {by_id[one]: (name, domains) for one, name, domains in answer} == {
        "alice@127.0.0.1": ("Waybill at 127.0.0.1", ["127.0.0.1"]),
        "al@lab.example": ("The Laboratory", ["lab.example"]),
        "al@example.edu": ("The University", ["example.edu", "math.example.edu"]),
        "al@gone.example": ("gone.example", ["gone.example"]),
        "al@grid.example.org": ("The Grid", ["grid.example.org"]),
    }


@pytest.mark.usefixtures("configured")
def test_providers_are_found_by_id_and_by_domain_also_by_those_who_have_no_identity_there(bob: User) -> None:
    api = Api(bob, root="")
    university = (identities.id_of_provider(UNIVERSITY), "The University", ["example.edu", "math.example.edu"])
    assert found(api, ids=university[0].upper()) == [university]
    assert found(api, domains="MATH.example.edu") == [university]
    assert [name for _id, name, _domains in found(api, domains="lab.example,127.0.0.1")] == [
        "Waybill at 127.0.0.1",
        "The Laboratory",
    ]
    assert found(api, ids=university[0], domains="lab.example") == []
    assert found(api, ids=str(uuid.uuid4())) == found(api, domains="nowhere.example") == []
    # Institutions of a federation are thousands: a list without a question has what the operator has named.
    names = [name for _id, name, _domains in found(api)]
    assert names == ["Waybill at 127.0.0.1", "The Laboratory", "The Grid"]


@pytest.mark.usefixtures("configured")
def test_a_session_names_the_identity_that_signed_in_and_its_provider(alice: User, bob: User) -> None:
    portal = make(bob, CALLBACK)
    row = link(alice, LAB, "al@lab.example")
    for signed_in_as, who, provider in (
        ("AL@lab.example", row.pk, identities.id_of_provider(LAB)),
        ("", alice.pk, identities.provider_id()),
    ):
        code = portal.code(alice, "openid", signed_in_as=signed_in_as)
        tokens = portal.token(grant_type="authorization_code", code=code, redirect_uri=CALLBACK).body
        asked = {"token": tokens["access_token"], "include": "session_info"}
        told = portal.post("/v2/oauth2/token/introspect", asked).body
        [(shown, session)] = told["session_info"]["authentications"].items()
        assert (shown, session["idp"], told["sub"]) == (str(who), provider, str(alice.pk))
