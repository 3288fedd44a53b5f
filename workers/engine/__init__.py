"""The engine: what a worker does with a task while it holds the lease. No Django, no socket, no clock of its own.

slice     one slice of one task: the parts are put together, watched, and ended in order
work      the context that the parts of a slice share: ports, deadline, backoff, and how the slice ends
ports     the interfaces of the engine to the world; `tests/engine_fakes` implements them in memory
retry     what follows from a fault (pure)
scan/     items become files: listings, patterns, filters, symbolic links, and the comparison for sync
queue/    the pending files, sorted into chunks and given to lanes
lanes/    the lanes: opened, supplied with files, replaced after faults
settle/   what a file needs before it is settled, and the batches in which that is written
tuning/   plans: the rules of the paper, and what history and measurement change about them
delete/   DELETE tasks, extra files at the destination, and trees that are removed
"""
