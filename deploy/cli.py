"""The command `waybill`."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from typing import Any

from identity.call_origin import OPERATOR, Origin, comes_from
from identity.error_categories import CategorizedError
from identity.vault.keys import new_key
from transferapi.config import KNOWN, Config, load_or_exit

from .commands import (
    administration,
    agents,
    backup,
    check,
    client,
    doctor,
    endpoint,
    maintenance,
    nightly_backup,
    oidc,
    run,
    saml,
    scim,
    task,
    upgrade,
    user,
)
from .commands.base import Commands, open_database, say
from .commands.up import logs, up
from .stack.account import closed_to, compile_for_all, go_on_as, own_account, owner_of, rights_over_files, take_over
from .stack.errors import StackError
from .stack.free_ports import in_use, is_free
from .stack.home import Home


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 1 failed, 2 wrong usage, 3 not running (`status`), 78 wrong environment."""
    arguments = parser().parse_args(argv)
    try:
        # A key can be created before there is any configuration: the configuration holds it.
        if arguments.run is run_vault_key:
            run_vault_key(None, arguments)
            return 0
        if arguments.run is doctor.run_doctor and (status := doctor.wrong_settings(arguments)):
            return status
        config = load_or_exit()
        leave_root(config, arguments)
        # For the audit log. Servers that this process becomes have origins of their own in their threads.
        with comes_from(Origin(actor=OPERATOR)):
            return carry_out(config, arguments)
    except StackError as error:
        sys.stderr.write(f"waybill: {error}\n")
    except OSError as error:
        sys.stderr.write(f"waybill: {': '.join(str(part) for part in (error.strerror, error.filename) if part)}\n")
    except KeyboardInterrupt:
        return 130
    return 1


def carry_out(config: Config, arguments: argparse.Namespace) -> int:
    """Returns the exit status. Raises StackError, also where the domain refuses something."""
    try:
        return int(arguments.run(config, arguments) or 0)
    except CategorizedError as error:
        raise StackError(error.message) from None


def leave_root(config: Config, arguments: argparse.Namespace) -> None:
    """Go on as the owner of the home where root runs this. `up` first gives a home of root's to an account."""
    if os.geteuid() != 0:
        return
    home = Home(config.home)
    account = owner_of(home)
    if arguments.run is run_up:
        if home.supervisor() is None and not is_free(config.port):
            # Before the modules are compiled, which takes seconds.
            raise StackError(in_use(config.port, "WAYBILL_PORT"))
        if account is None:
            account = own_account()
            take_over(home, account)
        compile_for_all()
        say(f"Waybill runs as the account {account.pw_name}, not as root.")
        if closed := closed_to(account, home):
            say(f"  It keeps the right to {rights_over_files()}, for {closed} is closed to it;")
            say("  the sample servers do not keep it.")
    if account is not None:
        go_on_as(account, home, config.port)


def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(
        prog="waybill",
        description="Run Waybill on this machine.",
        epilog=_variables(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = Commands(main)
    commands.add("up", run_up, "start everything and keep it running until Ctrl-C")
    commands.add("down", run_down, "stop what `up` started")
    commands.add("status", run_status, "show what is running")
    commands.add("logs", run_logs, "follow the logs")
    commands.add("shell", run_shell, "run the ssh server of the shell, as `run shell` does")
    commands.add("relay", run_relay, "run the relay, to which agents connect, as `run relay` does")
    commands.add("credentials", run_credentials, "show how the sample user of `up` signs in")
    vault = commands.group("vault", "the vault of credentials")
    vault.add("key", run_vault_key, "print a new key for WAYBILL_VAULT_KEY")
    vault.add("status", run_vault_status, "count what is kept, by key")
    vault.add("rotate", run_vault_rotate, "seal all that is kept by the newest key, while everything runs")
    for module in (
        run, check, doctor, endpoint, client, oidc, user, administration, saml, scim, task, backup, nightly_backup,
        upgrade, maintenance, agents,
    ):  # fmt: skip
        module.declare(commands)
    return main


def _variables() -> str:
    """All commands, for the end of the help."""
    wrapped = (
        textwrap.fill(f"  {name}: {meaning}", 100, subsequent_indent="      ", break_on_hyphens=False)
        for name, meaning in KNOWN.items()
    )
    return "\n".join(("environment variables:", *wrapped))


def run_up(config: Config, arguments: argparse.Namespace) -> int:
    return up(config)


def run_down(config: Config, arguments: argparse.Namespace) -> None:
    say("Stopped." if Home(config.home).stop_supervisor() else f"Waybill is not running in {config.home}.")


def run_status(config: Config, arguments: argparse.Namespace) -> int:
    home = Home(config.home)
    supervisor = home.supervisor()
    if supervisor is None:
        say(f"Waybill is not running in {config.home}.")
        return 3
    connection: Any = home.read_json(home.connection)
    if not connection:
        say(f"Waybill is starting in {config.home} (supervisor {supervisor}).")
        return 0
    say(f"Waybill is up at {connection['url']}, in {config.home}.")
    for name, pid in connection["pids"].items():
        say(f"  {name:12} {pid:>8}  {'running' if os.path.exists(f'/proc/{pid}') else 'gone'}")
    return 0


def run_shell(config: Config, arguments: argparse.Namespace) -> int:
    open_database()
    from transferapi.shell.server.main import serve

    return serve(config)


def run_relay(config: Config, arguments: argparse.Namespace) -> int:
    open_database()
    from transferapi.relay.main import serve

    return serve(config)


def run_credentials(config: Config, arguments: argparse.Namespace) -> None:
    """The only command that shows the secrets: `up` names their files, because its output goes into logs."""
    home = Home(config.home)
    user = home.read_json(home.prepared).get("username")
    if user is None:
        raise StackError(f"there is no sample user in {config.home}: has it been started?")
    client = home.read_json(home.client)
    say(f"user          {user}\npassword      {home.read_password()}\ntoken         {home.read_token()}")
    say(f"client id     {client.get('id')}\nclient secret {client.get('secret')}")


def run_logs(config: Config, arguments: argparse.Namespace) -> int:
    files = [str(path) for path in logs(config.home)]
    if not files:
        raise StackError(f"there are no logs in {config.home}: has it been started?")
    os.execvp("tail", ["tail", "-n", "20", "-F", *files])  # noqa: S606


def run_vault_key(config: Config | None, arguments: argparse.Namespace) -> None:
    say(new_key())


def run_vault_status(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1 where a kept credential cannot be decrypted."""
    open_database()
    from identity.vault import store as vault

    found = vault.status()
    for place, name in enumerate(found.keys):
        use = "seals" if place == 0 else "opens"
        say(f"  {name}  {use}  {found.rows[name]:>8} kept")
    for name in sorted(set(found.rows) - set(found.keys)):
        say(f"  {name}  not configured: {found.rows[name]} kept that no key opens")
    if not found.keys:
        say("The vault has no key: `waybill vault key` makes one, WAYBILL_VAULT_KEY takes it.")
    if found.broken:
        say(f"{found.broken} kept that were changed since they were sealed, and cannot be opened.")
    return 1 if found.missing or found.broken else 0


def run_vault_rotate(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1 where a credential could not be decrypted; it stays as it is."""
    open_database()
    from identity.vault import store as vault

    done = vault.rotate()
    say(f"{done.resealed} sealed anew by the key {done.key_id}.")
    if done.unopened:
        say(f"{done.unopened} could not be opened, and stay as they are: see `waybill vault status`.")
        return 1
    say("The older keys may go.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
