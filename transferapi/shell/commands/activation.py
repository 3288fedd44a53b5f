"""endpoint-activate, endpoint-deactivate: credentials for endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.views.decorators.debug import sensitive_variables

from endpoints import endpoint_view
from endpoints.activation import services
from endpoints.activation.forms import LONGEST_HOURS, Form, GivenField
from endpoints.activation.services import ActivationResult
from endpoints.registry import canonical_name
from identity.error_categories import CategorizedError
from identity.hidden import Secret
from identity.models import User
from transferapi.rest.transfer import activation_documents
from transferapi.shell.command import Heading, answer, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import FAILED, OK, ShellError
from transferapi.shell.operation_errors import activation_page, ways_to_activate
from transferapi.shell.options import Arguments, flag, number, option
from transferapi.shell.output import FORM, line

#: Endpoints of one line.
MOST = 100
#: Seconds: where a person sits at the terminal, a credential that is valid for less is renewed.
SHORT = 1800
#: Hours that a credential of a MyProxy or OAuth server is to be valid.
HOURS = 24
_NEEDED = "ClientError.ActivationRequired"


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An endpoint before a person is asked. lasting: a credential is there that needs no renewal now."""

    name: str
    active: bool
    lasting: bool
    shared: bool
    forms: Sequence[Form]
    myproxy_server: str
    page: str
    ways: str


@command("endpoint-activate", "[OPTIONS] ENDPOINT [ENDPOINT ...]", Heading.ENDPOINTS,
         flag("-g", key="delegated", about="use the credential of gsissh only, and do not ask"),
         option("-m", "--myproxy-server", metavar="HOST[:PORT]", about="another MyProxy server than the endpoint's"),
         option("-U", "--username", metavar="USER", about="your name at the MyProxy server"),
         option("-P", "--passphrase", metavar="TEXT", about="refused: others can read a command line"),
         option("--dn", metavar="DN", about="subject of the MyProxy server's certificate, if not its host name"),
         option("--myproxy-lifetime", metavar="HOURS", read=number(1, LONGEST_HOURS), default=HOURS,
                about=f"how long the credential is to be valid; {HOURS}"),
         flag("--s3", about="refused: this service has no endpoints on S3 storage"), FORM,
         summary="Give a credential for endpoints")  # fmt: skip
def endpoint_activate(context: Context, arguments: Arguments) -> int:
    """Makes sure that you have a valid credential for each endpoint. Where you have one already, or none is needed,
    nothing is printed. `*` in a name stands for any text: `endpoint-activate xsede#*`.

    Otherwise the way depends on the endpoint. For a MyProxy server, your user name and your passphrase there are asked
    for; the passphrase is not shown, used once, and not stored. For an OAuth server, the address of its sign-in page is
    printed; sign in there, and enter the line that it shows. A credential of such a server is valid for all endpoints
    that name the server.

    Without a terminal nothing is asked: use `ssh -t`. The error names the web address for other ways, such as a proxy
    certificate or an ssh key.
    """
    _refuse(arguments)
    refs = context.call(_expanded, context.user, operands(arguments, 1, MOST))
    status = OK
    for ref in refs:
        try:
            _activate(context, arguments, ref)
        except (ShellError, CategorizedError) as error:
            if len(refs) == 1:
                raise
            context.err(f"Error: {line(f'{ref}: {error.message}')}\n")
            status = FAILED
    return status


def _refuse(arguments: Arguments) -> None:
    if arguments["s3"]:
        raise ShellError("This service has no endpoints on S3 storage", "ClientError.BadRequest.NotSupported")
    if arguments["passphrase"] is not None:
        raise ShellError("Others can read a passphrase on a command line: leave out -P, and you are asked for it")


def _expanded(user: User, refs: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for ref in refs:
        fitting = endpoint_view.named_like(user, ref, limit=MOST + 1) if "*" in ref else [ref]
        if not fitting:
            raise ShellError(f"No endpoint fits '{ref}'", "EndpointNotFound")
        found |= dict.fromkeys(fitting)
    if len(found) > MOST:
        raise ShellError(f"These are more than {MOST} endpoints; name fewer")
    return list(found)


def _activate(context: Context, arguments: Arguments, ref: str) -> None:
    """Raises ShellError, CategorizedError."""
    outcome, endpoint = context.call(_look, context.user, ref)
    renew = context.interactive and not endpoint.lasting and not arguments["delegated"] and not endpoint.shared
    if endpoint.active and not renew:
        _show(context, arguments, outcome, "")
        return
    if endpoint.shared:
        raise ShellError(f"{outcome.message}. {endpoint.ways}".removesuffix(". "), _NEEDED)
    if arguments["delegated"]:
        reason = "no credential of gsissh came with this session; leave out -g"
        raise ShellError(f"You have no credential for {endpoint.name}, and {reason}. {endpoint.ways}", _NEEDED)
    rows = _asked(context, arguments, ref, endpoint)
    outcome = context.call(services.activate, context.user, ref, rows)
    _show(context, arguments, outcome, f"{line(outcome.message)}\n")


def _look(user: User, ref: str) -> tuple[ActivationResult, _Endpoint]:
    outcome = services.autoactivate(user, ref)
    row, status = outcome.endpoint, outcome.activation_status
    left = status.seconds_left(datetime.now(UTC))
    of_another = row.host_id is not None and row.owner_id != user.pk
    found = _Endpoint(
        name=canonical_name(row),
        active=status.active,
        lasting=status.active and (left < 0 or left >= SHORT),
        shared=row.host_id is not None,
        forms=services.offered(row),
        myproxy_server=row.myproxy_server,
        page=activation_page(row),
        ways="" if of_another else ways_to_activate(row.host or row),
    )
    return outcome, found


def _show(context: Context, arguments: Arguments, outcome: ActivationResult, text: str) -> None:
    more = context.call(activation_documents.outcome, outcome) if arguments["form"] == "json" else {"DATA_TYPE": ""}
    answer(context, arguments, more.pop("DATA_TYPE"), outcome.code, outcome.message, text, **more)


@sensitive_variables()
def _asked(context: Context, arguments: Arguments, ref: str, endpoint: _Endpoint) -> list[GivenField]:
    """The filled form of the endpoint's preferred way. Raises ShellError where the person cannot be asked."""
    by_myproxy = arguments["myproxy_server"] or arguments["username"]
    if Form.OAUTH in endpoint.forms and not by_myproxy:
        return _ask_for_code(context, arguments, ref, endpoint)
    if not context.interactive:
        raise ShellError(f"You have no credential for {endpoint.name} that is valid now. {endpoint.ways}", _NEEDED)
    if Form.MYPROXY in endpoint.forms and (arguments["myproxy_server"] or endpoint.myproxy_server):
        return _ask_for_passphrase(context, arguments, endpoint)
    advice = "Name a MyProxy server with -m, or open" if Form.MYPROXY in endpoint.forms else "Open"
    raise ShellError(f"{endpoint.name} names no server that issues credentials. {advice} {endpoint.page}", _NEEDED)


@sensitive_variables()
def _ask_for_passphrase(context: Context, arguments: Arguments, endpoint: _Endpoint) -> list[GivenField]:
    server = arguments["myproxy_server"] or endpoint.myproxy_server
    asked = arguments["username"] is None
    username = context.prompt(f"Username at {server}: ") if asked else arguments["username"]
    passphrase = Secret(context.prompt("Passphrase: ", echo=False))
    if not passphrase.value:
        raise ShellError("The passphrase is empty; the endpoint was not activated")
    plain = {
        "hostname": server,
        "username": username,
        "server_dn": arguments["dn"],
        "lifetime_in_hours": str(arguments["myproxy_lifetime"]),
    }
    rows = [GivenField(Form.MYPROXY, name, Secret(value)) for name, value in plain.items() if value]
    return [*rows, GivenField(Form.MYPROXY, "passphrase", passphrase)]


@sensitive_variables()
def _ask_for_code(context: Context, arguments: Arguments, ref: str, endpoint: _Endpoint) -> list[GivenField]:
    """The line of the sign-in page. Without a terminal only the address is printed."""
    written = context.call(_sign_in, context.user, ref)
    if not written.get("authorization_url"):
        raise ShellError(f"The OAuth server of {endpoint.name} cannot be reached now. {endpoint.ways}", "ExternalError")
    context.out(f"Sign in at {line(written['authorization_url'] or '')}\n")
    if not context.interactive:
        reason = "the page shows a line that you enter here: "
        raise ShellError(f"{endpoint.name} is not activated yet; {reason}{endpoint.ways}", _NEEDED)
    code = Secret(context.prompt("The line that the page shows: ", echo=False))
    if not code.value:
        raise ShellError("No line was entered; the endpoint was not activated")
    hours = Secret(str(arguments["myproxy_lifetime"]))
    rows = {"code": code, "state": Secret(written["state"] or ""), "lifetime_in_hours": hours}
    return [GivenField(Form.OAUTH, name, value) for name, value in rows.items()]


def _sign_in(user: User, ref: str) -> dict[str, str | None]:
    """The values that the service writes into the form of the OAuth server."""
    rows = services.requirements(user, ref).rows
    return {row.name: row.value for row in rows if row.form is Form.OAUTH}


@command("endpoint-deactivate", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS, FORM,
         summary="Delete your credential for an endpoint")  # fmt: skip
def endpoint_deactivate(context: Context, arguments: Arguments) -> None:
    """Deletes your credential for an endpoint, also for other endpoints that use the same one. Tasks that need it wait
    until you activate the endpoint again.
    """
    [ref] = operands(arguments, 1)
    outcome = context.call(services.deactivate, context.user, ref)
    _show(context, arguments, outcome, f"{line(outcome.message)}\n")
