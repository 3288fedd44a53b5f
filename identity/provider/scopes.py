"""What a token may be good for, by the names that clients of the Globus services ask for; one place.

A resource server is one of our APIs; its name is what clients file its token under.
"""

from __future__ import annotations

AUTH = "auth.globus.org"
TRANSFER = "transfer.api.globus.org"
GROUPS = "groups.api.globus.org"
SEARCH = "search.api.globus.org"
TIMERS = "524230d7-ea86-4a52-8312-86065a9e0417"
FLOWS = "flows.globus.org"

OPENID = "openid"
PROFILE = "profile"
EMAIL = "email"
VIEW_IDENTITIES = f"urn:globus:auth:scope:{AUTH}:view_identity_set"
TRANSFER_ALL = f"urn:globus:auth:scope:{TRANSFER}:all"
GROUPS_ALL = f"urn:globus:auth:scope:{GROUPS}:all"
SEARCH_ALL = f"urn:globus:auth:scope:{SEARCH}:all"
TIMERS_ALL = f"https://auth.globus.org/scopes/{TIMERS}/timer"
FLOWS_ALL = "https://auth.globus.org/scopes/eec9b274-0c81-4334-bdc2-54e90e689b9a/all"
