"""The mails, a module for each subject. Each writes rows of the outbox, which `mail_sender` sends."""
