"""The shapes of the documents that come in, as OpenAPI schemas."""

from __future__ import annotations

from endpoints.fields import MAX_DATA_HOSTS
from endpoints.limits import CUSTOM, MOST, WORDS, Limits
from transferapi.tasks import options

from .schema import (
    MAYBE_FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    NUMBER,
    PATH,
    TEXT,
    UUID,
    Schema,
    about,
    asked,
    each,
    fields,
    list_of,
    one_of,
)
from .shapes_account import REQUESTS_ACCOUNT
from .shapes_auth import REQUESTS_AUTH
from .shapes_bookmarks import REQUESTS_BOOKMARKS
from .shapes_groups import REQUESTS_GROUPS
from .shapes_manage import REQUESTS_MANAGE
from .shapes_push import REQUESTS_PUSH
from .shapes_sharing import REQUESTS_SHARING, SHARED
from .shapes_timers import requests_timers

SCHEME = one_of("gsiftp", "ftp", "sshftp")
_SERVER = {
    "hostname": about("or `uri` in its place", MAYBE_TEXT),
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "nullable": True},
    "scheme": {**SCHEME, "nullable": True, "default": "gsiftp"},
    "uri": about("gsiftp://host:port, in place of hostname, port and scheme", MAYBE_TEXT),
    "subject": about("of the server's certificate, where it is not its host name", MAYBE_TEXT),
}
SERVER_REQUEST = asked("server", "", _SERVER)
_TEXTS = "display_name description organization department keywords contact_email contact_info info_link"
_ENDPOINT = {
    "name": about("the part after `#`; the endpoint's id when it is not given", MAYBE_TEXT),
    **each(_TEXTS, MAYBE_TEXT),
    "default_directory": about("where a listing without a path begins", MAYBE_TEXT),
    "public": about("others may see it and move data from and to it", MAYBE_FLAG),
    "allow_guest_collections": about("who may use it, public as it is, may share folders of it", MAYBE_FLAG),
    "user_message": about("shown to who uses it", MAYBE_TEXT),
    "user_message_link": about("https or http: more to read about that", MAYBE_TEXT),
    "force_encryption": about("every transfer from or to it is encrypted", MAYBE_FLAG),
    "force_verify": about("every transfer from or to it compares checksums", MAYBE_FLAG),
    "disable_verify": about("no transfer from or to it compares checksums", MAYBE_FLAG),
    "network_use": about(
        "how hard one task may work it; custom: by the four numbers beside it",
        {**one_of(*WORDS, CUSTOM), "nullable": True},
    ),
    "myproxy_server": about("host or host:port of the MyProxy server that its users get credentials from", MAYBE_TEXT),
    "myproxy_dn": about("of the MyProxy server's certificate, where it is not its host name", MAYBE_TEXT),
    "oauth_server": about("https address of the OAuth server that its users get credentials from", MAYBE_TEXT),
    "data_hosts": about(
        "hosts besides its servers whose addresses these may name for data connections: data nodes of striped servers",
        list_of(TEXT, maxItems=MAX_DATA_HOSTS, nullable=True),
    ),
    "is_globus_connect": about("a personal endpoint; there are none yet, so that none is made", MAYBE_FLAG),
    **each(
        "high_assurance mfa_required restrict_transfers_to_high_assurance disable_anonymous_writes "
        "preserve_modtime requester_pays",
        about("there are no such endpoints here: true is refused", MAYBE_FLAG),
    ),
    **each(" ".join(Limits._fields), {"type": "integer", "minimum": 1, "maximum": MOST, "nullable": True}),
}
_SUBMISSION = fields(
    submission_id=about("from GET /submission_id: sent again, it gives the same task", UUID),
    label=about("one line of at most 128 characters", MAYBE_TEXT),
    deadline=about("2030-01-31, 2030-01-31 23:59:59 or ISO 8601; UTC when no zone is said", MAYBE_TEXT),
    **each("notify_on_succeeded notify_on_failed notify_on_inactive", MAYBE_FLAG),
    skip_activation_check=about("accept it without a credential; it waits for one", MAYBE_FLAG),
)
_ENDPOINT_REFERENCE = about("id, owner#name, or the name of one of your own", TEXT)
TRANSFER_ITEM = asked(
    "transfer_item",
    "source_path destination_path",
    {
        "source_path": PATH,
        "destination_path": PATH,
        "recursive": about("absent: the service looks whether the source is a folder", MAYBE_FLAG),
        "external_checksum": about("what the content has, hexadecimal: compared on both sides", MAYBE_TEXT),
        "checksum_algorithm": about("of it, or to verify with; MD5 when absent", MAYBE_TEXT),
    },
)
SYMLINK_ITEM = asked(
    "transfer_symlink_item", "DATA_TYPE source_path destination_path", fields(source_path=PATH, destination_path=PATH)
)
_ACTIVATION_REQUIREMENT = asked(
    "activation_requirement",
    "type name",
    {
        "type": about("the form; one of those that the endpoint offers", TEXT),
        "name": about("of the row in this form", TEXT),
        "value": {"oneOf": [TEXT, NUMBER], "nullable": True, "description": "null or empty: not filled in"},
    },
)
_FILTER_RULE = asked(
    "filter_rule",
    "method name",
    {
        "method": one_of("include", "exclude"),
        "name": about("a pattern: * ? [abc] [!abc]", TEXT),
        "type": {**one_of("file", "dir"), "nullable": True, "description": "absent: both"},
    },
)
_TRANSFER_OPTIONS = {
    "sync_level": {
        "type": "integer",
        "minimum": 0,
        "maximum": 3,
        "nullable": True,
        "description": "copy only what is missing (0), has another size (1), is older (2), has another checksum (3)",
    },
    "verify_checksum": about("compare checksums of both sides after the transfer", MAYBE_FLAG),
    "encrypt_data": about("nobody reads the data on their way", MAYBE_FLAG),
    "preserve_timestamp": about("files keep their modification times", MAYBE_FLAG),
    "skip_source_errors": about("go on without what cannot be read at the source", MAYBE_FLAG),
    "fail_on_quota_errors": about("end the task when a quota is used up", MAYBE_FLAG),
    "delete_destination_extra": about("in the end delete what only the destination has", MAYBE_FLAG),
    "recursive_symlinks": {**one_of("ignore", "keep", "copy"), "default": "ignore", "nullable": True},
    "filter_rules": list_of(_FILTER_RULE, maxItems=options.MAX_FILTER_RULES, nullable=True),
    "store_base_path_info": about("tell the folders that all items lie in", MAYBE_FLAG),
    "perf_cc": about("sessions side by side", MAYBE_NUMBER),
    "perf_p": about("streams for each file", MAYBE_NUMBER),
    "perf_pp": about("files under way in each session", MAYBE_NUMBER),
    "perf_udt": about("over UDT where both servers allow it", MAYBE_FLAG),
    "tuning": {
        **one_of("paper", "adaptive", "fixed"),
        "default": "adaptive",
        "nullable": True,
        "description": "adaptive: plans follow what is measured; paper, fixed: the rules of 2012 and what is asked for",
    },
}

REQUESTS: dict[str, Schema] = {
    "endpoint": asked("endpoint", "", {**_ENDPOINT, "DATA": list_of(SERVER_REQUEST, nullable=True)}),
    "endpoint_change": asked("endpoint", "", _ENDPOINT),
    "server": SERVER_REQUEST,
    "activation_requirements": asked(
        "activation_requirements", "", {"DATA": list_of(_ACTIVATION_REQUIREMENT, maxItems=100, nullable=True)}
    ),
    "mkdir": asked("mkdir", "path", fields(path=PATH)),
    "rename": asked("rename", "old_path new_path", fields(old_path=PATH, new_path=PATH)),
    "transfer": asked(
        "transfer",
        "submission_id source_endpoint destination_endpoint DATA",
        {
            **_SUBMISSION,
            "source_endpoint": _ENDPOINT_REFERENCE,
            "destination_endpoint": _ENDPOINT_REFERENCE,
            **_TRANSFER_OPTIONS,
            "DATA": list_of({"oneOf": [TRANSFER_ITEM, SYMLINK_ITEM]}, minItems=1),
        },
    ),
    "delete": asked(
        "delete",
        "submission_id endpoint DATA",
        {
            **_SUBMISSION,
            "endpoint": _ENDPOINT_REFERENCE,
            "recursive": about("folders too, with all that is in them", MAYBE_FLAG),
            "ignore_missing": about("what is not there is as good as deleted", MAYBE_FLAG),
            "interpret_globs": about("paths are patterns as in a shell", MAYBE_FLAG),
            "DATA": list_of(asked("delete_item", "path", fields(path=PATH)), minItems=1),
        },
    ),
    **REQUESTS_ACCOUNT,
    **REQUESTS_AUTH,
    **REQUESTS_BOOKMARKS,
    **REQUESTS_GROUPS,
    **REQUESTS_PUSH,
    "shared_endpoint": asked("shared_endpoint", "host_path", {**SHARED, **_ENDPOINT}),
    **REQUESTS_SHARING,
    **REQUESTS_MANAGE,
    "task": asked("task", "", {name: _SUBMISSION[name] for name in ("label", "deadline")}),
}
REQUESTS.update(requests_timers(REQUESTS["transfer"]))
