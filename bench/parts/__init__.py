"""The parts of the benchmark `engine`: one module each, with `rows(ground)` and what its child processes run."""
