"""The tunnel between an agent and the relay: one WebSocket over TLS, and the channels inside it.

`Tunnel` is the agent's end. `websocket`, `frames`, `multiplexer`, `bridge` and `connection` serve both ends: the relay
(`transferapi/relay/`) imports them. The reasons: docs/decisions/agents.md.
"""
