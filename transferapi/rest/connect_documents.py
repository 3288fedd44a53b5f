"""The documents about agents, which are extensions of ours."""

from __future__ import annotations

import time
from dataclasses import dataclass

from endpoints.connect.presence import Presence
from endpoints.connect.program import AgentProgram
from endpoints.connect.setup import Issued
from endpoints.models import Agent
from endpoints.registry import canonical_name

from .openapi import types as t
from .openapi.common import ActionDocument
from .openapi.document_types import Field, RequestDocument, ResponseDocument, each

_CHAIN = t.about("the certificate and the one that signed it, in PEM", t.TEXT)
_SECONDS = t.about("Unix time of the service", t.NUMBER)
_PEM = "-----BEGIN CERTIFICATE-----\n..."


@dataclass(frozen=True, slots=True)
class ShownAgent:
    """An agent as its owner sees it."""

    row: Agent
    presence: Presence

    @property
    def state(self) -> str:
        """new: not set up yet."""
        if self.row.revoked_at is not None:
            return "revoked"
        return "set_up" if self.row.public_key else "new"


AGENT = ResponseDocument[ShownAgent](
    "agent",
    Field("endpoint", t.UUID, "row.endpoint_id"),
    Field("state", t.one_of("new", "set_up", "revoked")),
    Field("connected", t.FLAG, "presence.connected", True),
    Field("paused", t.FLAG, "presence.paused"),
    Field("last_seen_time", t.about("null: never", t.MAYBE_TIME), "presence.last_seen_at"),
    Field("version", t.TEXT, "row.version", "0.1.0"),
    Field("platform", t.TEXT, "row.platform", "Linux x86_64"),
    Field("certificate_serial", t.TEXT, "row.certificate_serial", "5f0c"),
    Field("certificate_expire_time", t.MAYBE_TIME, "row.certificate_expires_at"),
    Field("revoked_time", t.MAYBE_TIME, "row.revoked_at"),
    Field("setup_key_expire_time", t.about("expiry of the newest setup key", t.MAYBE_TIME), "row.setup_expires_at"),
    Field("setup_key_used_time", t.MAYBE_TIME, "row.setup_used_at"),
)
SETUP_KEY_CREATED = ActionDocument(
    "setup_key_create_result",
    Field("globus_connect_setup_key", t.about("shown this once", t.TEXT), example="wb1...."),
    Field("expire_time", t.TIME),
    message="The setup key is made; this is the only time it is shown",
    resource="/endpoint/8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01/setup_key",
)
SETUP_REQUEST = RequestDocument(
    "agent_setup",
    "secret request",
    Field("secret", t.about("the secret of the setup key", t.TEXT)),
    Field("request", t.about("a certificate request (PKCS #10) in PEM, for a key of the curve P-256", t.TEXT)),
    *each("version platform", t.MAYBE_TEXT),
    example={"secret": "...", "request": "-----BEGIN CERTIFICATE REQUEST-----\n...", "version": "0.1.0"},
)
RENEW_REQUEST = RequestDocument(
    "agent_renewal",
    "chain signature",
    Field("chain", _CHAIN),
    Field("signature", t.about("base64 of the signature over `waybill connect renew 1`, NUL and the chain", t.TEXT)),
    *each("version platform", t.MAYBE_TEXT),
    example={"chain": _PEM, "signature": "MEUCIQ..."},
)
CERTIFICATE = ResponseDocument[Issued](
    "agent_certificate",
    Field("endpoint_id", t.UUID, "agent.endpoint_id"),
    Field("endpoint_name", t.TEXT, lambda issued: canonical_name(issued.agent.endpoint), "alice#laptop"),
    Field("chain", _CHAIN, example=_PEM),
    Field("expire_time", t.MAYBE_TIME, "agent.certificate_expires_at"),
    Field("time", _SECONDS, lambda issued: int(issued.now.timestamp()), 1_760_000_000),
)


PROGRAM = ResponseDocument[AgentProgram](
    "agent_program",
    Field("version", t.TEXT, example="0.1.0"),
    Field("sha256", t.TEXT, "digest", "0" * 64),
    Field("time", _SECONDS, lambda _: int(time.time()), 1_760_000_000),
)
