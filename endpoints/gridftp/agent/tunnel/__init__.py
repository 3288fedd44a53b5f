"""The tunnel between an agent and the relay: one WebSocket over TLS, and the channels inside it (decision 0046).

`Tunnel` is the agent's end. `websocket`, `frames`, `multiplexer`, `bridge` and `connection` serve both ends: the relay
(`transferapi/relay/`) imports them.
"""
