"""The mails are written here, a module for each subject, as rows of the outbox, which `mail_sender` sends."""
