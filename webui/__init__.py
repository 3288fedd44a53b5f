"""The pages: they ask the services, and show what the REST API shows. The server renders them, without JavaScript."""
