"""The restricted ssh shell: its language, one module for each family of commands, its terminal and its ssh server.

It is no Unix shell: a line is parsed, and a function of the services is called. It holds no rule and can do nothing
that REST cannot.
"""
