"""The edge: HTTP, the command line, files, and what wires them together."""
