from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "transferapi.tasks"
    label = "tasks"

    def ready(self) -> None:
        from endpoints.signals import access_given, host_key_settled, pause_rules_changed
        from identity.signals import (
            account_changed,
            address_changed,
            address_wanted,
            credential_stored,
            recovery_wanted,
            user_deactivated,
            user_deleted,
        )
        from identity.vault import rotation

        from . import ended_accounts
        from .managers import pauses
        from .notify import webhooks
        from .notify.mails import account as account_mails
        from .notify.mails import task as task_mails
        from .worker import host_keys, renewal

        credential_stored.connect(renewal.stored, dispatch_uid="tasks that wait for it go on")
        pause_rules_changed.connect(pauses.rules_changed, dispatch_uid="tasks are paused, or go on")
        host_key_settled.connect(host_keys.settled, dispatch_uid="tasks that wait for a host key go on")
        rotation.register(webhooks.SEALED)
        account_changed.connect(account_mails.changed, dispatch_uid="a mail about a changed way to sign in")
        recovery_wanted.connect(account_mails.recovery_wanted, dispatch_uid="a mail with a link for a new password")
        address_wanted.connect(account_mails.address_wanted, dispatch_uid="a mail with a link to a new address")
        address_changed.connect(account_mails.address_changed, dispatch_uid="a notice to the former address")
        user_deactivated.connect(ended_accounts.user_deactivated, dispatch_uid="tasks of deactivated users")
        user_deleted.connect(ended_accounts.user_deleted, dispatch_uid="webhooks of deleted users")
        access_given.connect(task_mails.access_given, dispatch_uid="a mail to whom access is given")
