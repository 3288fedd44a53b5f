"""The two ceremonies of WebAuthn (level 2, 7.1 and 7.2), by the library fido2: what is asked of a browser, and the
check of its answer. This module keeps nothing.

Each answer must have the challenge, the origin and the id of this service, the presence of a person, and its
verification by the device (PIN, finger, face). Attestation is not asked for, and none is believed: any authenticator
may be used. Answers are text of strangers: whatever is wrong with one is a PasskeyRefusedError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import settings
from fido2.cbor import decode, encode
from fido2.cose import CoseKey
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestationConveyancePreference,
    AttestedCredentialData,
    AuthenticationResponse,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from identity import networks

from .errors import PasskeyRefusedError, PasskeysUnavailableError

#: Characters of an answer; one with an attestation of three certificates has 5,000.
MAX_ANSWER = 16 * 1024
MAX_CREDENTIAL_ID = 1023
_TRANSPORTS = frozenset(AuthenticatorTransport)
#: No authenticator has more; the database and JSON keep it exactly.
_MAX_COUNT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The relying party: its id, and the origin of its pages."""

    id: str
    origin: str


@dataclass(frozen=True, slots=True)
class PasskeyCredential:
    """A credential. public_key: COSE_Key. count: the value of the signature counter at this ceremony."""

    credential_id: bytes
    public_key: bytes
    count: int
    transports: tuple[str, ...] = ()


def site() -> RelyingParty:
    """The site by the address of this service; on the loopback interface it is `localhost`, the only name that needs no
    https. Raises PasskeysUnavailableError where browsers would refuse: http, or an address without a name.
    """
    parts = urlsplit(settings.PUBLIC_URL)
    host = parts.hostname or ""
    if networks.is_loopback(host):
        host = "localhost"
    elif parts.scheme != "https" or networks.numeric(host) is not None:
        raise PasskeysUnavailableError
    port = f":{parts.port}" if parts.port else ""
    return RelyingParty(host, f"{parts.scheme}://{host}{port}")


def ask_for_new(challenge: bytes, handle: bytes, name: str, known: Sequence[PasskeyCredential]) -> dict[str, Any]:
    """The options of `navigator.credentials.create`, as JSON. known: the keys that the user has already."""
    user = PublicKeyCredentialUserEntity(id=handle, name=name, display_name=name)
    options, _ = _server().register_begin(
        user,
        [_descriptor(key) for key in known],
        ResidentKeyRequirement.REQUIRED,
        UserVerificationRequirement.REQUIRED,
        challenge=challenge,
    )
    return dict(options.public_key)


def ask_for_proof(challenge: bytes, known: Sequence[PasskeyCredential] = ()) -> dict[str, Any]:
    """The options of `navigator.credentials.get`, as JSON. known: the keys of the user, if the user is known."""
    options, _ = _server().authenticate_begin(
        [_descriptor(key) for key in known] or None, UserVerificationRequirement.REQUIRED, challenge
    )
    return dict(options.public_key)


def check_new(challenge: bytes, answer: str) -> PasskeyCredential:
    """The new key in the answer of a browser. Raises PasskeyRefusedError."""
    try:
        given = _parsed(answer)
        data = _server().register_complete(_state(challenge), given)
        credential = data.credential_data
        if credential is None or not 0 < len(credential.credential_id) <= MAX_CREDENTIAL_ID:
            raise PasskeyRefusedError
        if credential.public_key.get(3) not in CoseKey.supported_algorithms():
            raise PasskeyRefusedError
        transports = given["response"].get("transports") or []
        known = tuple(sorted(_TRANSPORTS & {str(one) for one in transports}))
        return PasskeyCredential(
            credential.credential_id, encode(dict(credential.public_key)), _count(data.counter), known
        )
    except Exception:
        # The library reports by many types what is wrong with octets of strangers.
        raise PasskeyRefusedError from None


def credential_of(answer: str) -> tuple[bytes, bytes | None]:
    """The credential id and the user handle that an answer names, neither proven yet. Raises PasskeyRefusedError."""
    try:
        given = AuthenticationResponse.from_dict(_parsed(answer))
        return bytes(given.raw_id), given.response.user_handle
    except Exception:
        raise PasskeyRefusedError from None


def check_proof(challenge: bytes, answer: str, key: PasskeyCredential) -> int:
    """The counter in an answer that was signed by this key. Raises PasskeyRefusedError."""
    try:
        public_key = CoseKey.parse(cast("Mapping[int, Any]", decode(key.public_key)))
        data = AttestedCredentialData.create(b"\0" * 16, key.credential_id, public_key)
        given = _parsed(answer)
        _server().authenticate_complete(_state(challenge), [data], given)
        return _count(AuthenticationResponse.from_dict(given).response.authenticator_data.counter)
    except Exception:
        raise PasskeyRefusedError from None


def _server() -> Fido2Server:
    at = site()
    entity = PublicKeyCredentialRpEntity(id=at.id, name="Waybill")
    return Fido2Server(entity, AttestationConveyancePreference.NONE, verify_origin=lambda origin: origin == at.origin)


def _state(challenge: bytes) -> Any:
    """The state that the library wants back: the challenge, and that the person is verified."""
    return _server().authenticate_begin(None, UserVerificationRequirement.REQUIRED, challenge)[1]


def _descriptor(key: PasskeyCredential) -> PublicKeyCredentialDescriptor:
    return PublicKeyCredentialDescriptor(
        type=PublicKeyCredentialType.PUBLIC_KEY,
        id=key.credential_id,
        transports=[AuthenticatorTransport(one) for one in key.transports] or None,
    )


def _parsed(answer: str) -> dict[str, Any]:
    if len(answer) > MAX_ANSWER:
        raise PasskeyRefusedError
    found = json.loads(answer)
    if not isinstance(found, dict):
        raise PasskeyRefusedError
    return found


def _count(value: int) -> int:
    if not 0 <= value <= _MAX_COUNT:
        raise PasskeyRefusedError
    return value
