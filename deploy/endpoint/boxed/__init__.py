"""An endpoint in a box: a GridFTP server with GSI, a MyProxy server with its online authority, and their registration.

The standard library only, and Debian's own python3: `deploy/endpoint/box` runs it from a checkout.
"""
