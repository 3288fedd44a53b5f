"""Which way the files of a lane go: directly between the servers, or through this worker; with the words for the user.

From and to ssh accounts: directly, else through ssh and this worker, else by SFTP.
"""

from __future__ import annotations

import asyncio
from enum import Enum

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.third_party.data_security import obstacle
from endpoints.ssh.accounts.account_login import offer_of
from transferapi.tasks.records import DIRECT as DIRECTLY
from transferapi.tasks.records import STREAMED, DataWay
from workers.sessions.pool import DIRECT, SessionPool
from workers.sessions.pooled_sessions import PooledSession

NOT_PRIVATE = "the data are to be encrypted, and the servers cannot do that."


class Way(Enum):
    """How files get from one server to the other."""

    #: A third-party transfer as GridFTP has it.
    BLOCKS = "third party"
    #: A third-party transfer in MODE S: plain FTP servers, if they connect to each other at all.
    PLAIN = "third party in MODE S"
    STREAM = "through the service"


async def way_between(
    source: PooledSession, destination: PooledSession, pool: SessionPool, *, encrypt: bool = False
) -> Way:
    """Servers without MODE E try MODE S once; most refuse the other one's address, and the pool remembers it."""
    ends = source.inner, destination.inner
    if not (isinstance(ends[0], GridFTPSession) and isinstance(ends[1], GridFTPSession)):
        return Way.STREAM
    if has_ftp_tls(source) or has_ftp_tls(destination):
        return Way.STREAM
    if has_account(source, destination):
        return account_way(source, destination, pool, encrypt=encrypt)
    if all(await asyncio.gather(ends[0].moves_blocks(), ends[1].moves_blocks())):
        return Way.BLOCKS
    mixed = source.inner.protected or destination.inner.protected
    refused = pool.refuses(DIRECT, source.address, destination.address)
    return Way.STREAM if mixed or refused else Way.PLAIN


def has_account(source: PooledSession, destination: PooledSession) -> bool:
    """Whether one of these servers was found or started in an ssh account."""
    return bool(offer_of(source.inner) or offer_of(destination.inner))


def account_way(source: PooledSession, destination: PooledSession, pool: SessionPool, *, encrypt: bool) -> Way:
    """The way of two GridFTP sessions. encrypt: accounts whose servers cannot encrypt use ssh."""
    addresses = source.address, destination.address
    accounts = offer_of(source.inner) and offer_of(destination.inner)
    if encrypt and accounts and obstacle(source.gridftp, destination.gridftp, encrypt=True):
        pool.refuse(DIRECT, *addresses, why=NOT_PRIVATE)
    return Way.STREAM if pool.refuses(DIRECT, *addresses) else Way.BLOCKS


def on_trial(source: PooledSession, destination: PooledSession, pool: SessionPool) -> bool:
    """Whether it is not known yet that the two open data connections with each other."""
    return has_account(source, destination) and not pool.works(DIRECT, source.address, destination.address)


def told(source: PooledSession, destination: PooledSession, pool: SessionPool, *, direct: bool) -> DataWay | None:
    """The programs of the accounts, and which way the data go and why; None where neither is an account."""
    offers = [(session.side, offer_of(session.inner)) for session in (source, destination)]
    words = [f"The {side}: {offer}" for side, offer in offers if offer]
    if not words:
        return None
    if direct:
        return DataWay(DIRECTLY, " ".join([*words, "The servers open data connections with each other."]))
    only_sftp = [str(session.side) for session in (source, destination) if session.multiplexed]
    if only_sftp:
        words.append(f"Files of the {' and of the '.join(only_sftp)} are read and written by SFTP.")
    else:
        why = pool.why_refused(DIRECT, source.address, destination.address)
        words.append(f"The data go through ssh, because the servers could not connect directly: {why}")
    return DataWay(STREAMED, " ".join(words))


def has_ftp_tls(session: PooledSession) -> bool:
    inner = session.inner
    return isinstance(inner, GridFTPSession) and inner.connection.data_tls is not None
