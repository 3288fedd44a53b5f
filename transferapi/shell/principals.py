"""The options that name who gets access or a role: a user, a group, or everybody."""

from __future__ import annotations

from endpoints.sharing.principals import GROUP, IDENTITY
from identity.provider import identities

from .errors import ShellError, UsageError
from .options import Arguments, flag, option

PERSONS = (
    option("--identityusername", metavar="USER", about="a user, by name"),
    option("--identityid", metavar="UUID", about="a user, by id"),
    option("--groupid", metavar="UUID", about="the members of a group"),
)
EVERYBODY = (
    flag("--all", about="all users who are signed in"),
    flag("--anonymous", about="everybody"),
    option("--email", metavar="ADDRESS", about="a user whose name is an address; the user gets a mail"),
)
_TYPES = {"all": "all_authenticated_users", "anonymous": "anonymous", "identityid": IDENTITY, "groupid": GROUP}


def chosen(arguments: Arguments) -> tuple[str, str | None]:
    """The type and the id of the one principal that the line names. Call it by `Context.call`.

    Raises UsageError, ShellError.
    """
    names = [key for key in ("identityusername", "email", *_TYPES) if key in arguments.given]
    if len(names) != 1:
        reason = "name one principal only" if names else "a principal is missing"
        raise UsageError(f"{reason}: --identityusername USER, --identityid UUID, --groupid UUID or another such option")
    [key] = names
    value = arguments[key]
    if key in _TYPES:
        return _TYPES[key], value if isinstance(value, str) else None
    return IDENTITY, _by_name(value)


def _by_name(name: str) -> str:
    """The id of the identity, so that a rule on a linked one ends when it is unlinked.

    Users do not learn whose a mail address is: only a name that is an address is looked up.
    """
    found = identities.with_usernames([name])
    if not found:
        way = "; give the name of a user by --identityusername, or an id by --identityid" if "@" in name else ""
        raise ShellError(f"No identity has the name '{name}'{way}", "ClientError.NotFound")
    return str(found[0].id)
