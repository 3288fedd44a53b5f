"""The parts of the shell's task commands: lists of lines, submissions, records of tasks, and waiting for them."""
