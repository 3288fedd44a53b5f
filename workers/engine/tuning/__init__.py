"""Plans: concurrency, parallelism, pipelining and transport, from rules, history and measurement."""
