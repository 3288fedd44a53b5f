"""Languages: the translations of pages and mails, and the language in which a user reads mails."""
