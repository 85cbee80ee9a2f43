"""Models as files: tracing a module to a graph, saving it, and reading it back without running any code of the file."""
