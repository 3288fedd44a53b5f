"""The statements of a restore, around those of `pg_restore`: all are one transaction (decision 0064)."""

from __future__ import annotations

from transferapi.tasks.managers import holds
from transferapi.timers import holds as timer_holds

#: A lock on the restore itself; what else holds a lock on a table ends it after the time that `programs` sets.
BEGIN = "BEGIN;\nSELECT pg_catalog.pg_advisory_xact_lock(6401);\n"
COMMIT = "\nCOMMIT;\n"

#: Removes all tables, views, sequences and functions of the schema `public`, except those of extensions. The schema
#: itself often belongs to somebody else.
EMPTY = """
DO $empty$ DECLARE one text; BEGIN
    FOR one IN
        SELECT format('DROP %s IF EXISTS %I.%I CASCADE',
            CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
                ELSE 'TABLE' END, n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
        ORDER BY c.relkind = 'S'
    LOOP EXECUTE one; END LOOP;
    FOR one IN
        SELECT format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure) FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    LOOP EXECUTE one; END LOOP;
END $empty$;
"""

#: Ended at each restore: sessions of the pages; links and codes that are used once; secrets that wait for a step.
ENDED = (
    "django_session", "identity_usersession", "identity_recoverylink", "identity_recoveryrequest",
    "identity_signuprequest", "identity_invitation", "identity_pendingsecret", "oauth2_provider_grant",
    "oauth2_provider_devicegrant",
)  # fmt: skip
#: Ended where the operator wants it, in this order (they name each other).
TOKENS = (
    "identity_signintoken", "oauth2_provider_refreshtoken", "oauth2_provider_accesstoken", "oauth2_provider_idtoken",
    "identity_apitoken", "identity_scimtoken",
)  # fmt: skip

_DELETE = """
DO $end$ DECLARE one text; BEGIN
    FOREACH one IN ARRAY ARRAY[{tables}] LOOP
        IF to_regclass('public.' || one) IS NOT NULL THEN EXECUTE format('DELETE FROM public.%I', one); END IF;
    END LOOP;
END $end$;
"""


def afterwards(reason: str, *, end_tokens: bool) -> str:
    """Hold every task and timer, and end sessions. reason: of the hold, for the owners of the tasks."""
    tables = ", ".join(f"'{name}'" for name in (*ENDED, *(TOKENS if end_tokens else ())))
    literal = "'" + reason.replace("'", "''") + "'"
    held = holds.HOLD_ALL.format(reason=literal) + timer_holds.HOLD_ALL
    # `pg_restore` leaves the session without a search path.
    return "\nSET LOCAL search_path = public, pg_catalog;\n" + held + _DELETE.format(tables=tables)
