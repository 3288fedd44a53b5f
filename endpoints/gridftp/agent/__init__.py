"""The agent: one file, run by any Python from 3.8 on, that makes the machine it runs on an endpoint.

It connects to the service and never listens. It needs the standard library only, and shares its core with
`endpoints/gridftp/server`.
"""
