"""The engine: what a worker does with a task while it holds the lease. No Django, no socket, no clock of its own.

run       one slice of one task: the parts put together, watched, and ended in order
work      what the parts share: ports, deadline, backoff, and how the slice ends
scan      items become files; `walk` goes through one folder (`visits`), `folders` makes those of the destination
selection what of a folder is wanted: `filters` by name, and symlinks, which `links` makes anew. Pure but for the making
sync      what is in place already: `compare` folders side by side, `contents` by checksum beside the scan
plan      the rules of the paper: concurrency, parallelism, pipelining, and the reason. Pure
dealer    files in hand, sorted into chunks and dealt to lanes. Pure
stock     where files come in hand: from the scan, and from the store when memory had no room
crew      the lanes: opened, fed, listened to, replaced when they die
arrival   whether what arrived is the whole file. Pure
aftercare what a file needs before it is settled: `verify` by `checksums` on both sides, `timestamps` of the source
retry     what follows from a fault. Pure
extras    what only the destination has is removed at the end; `survey` says where that may be done
ledger    settlement, in batches
delete    the same for DELETE: found first, then removed, folders last
globs     what the patterns in its paths stand for
uproot    things removed with all that is in them, as they are found
ports     what all this needs from the world; `fakes` has it in memory
"""
