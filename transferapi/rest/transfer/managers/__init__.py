"""The managers of endpoints: tasks of others, pause rules, endpoints (`endpoint_manager`)."""
