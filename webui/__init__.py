"""The pages (floor 5): they ask the services and show what REST shows, by the server and without JavaScript."""
