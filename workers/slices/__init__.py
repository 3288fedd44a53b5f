"""The slices of a worker: the threads in which they run, and what a trace shows of them."""
