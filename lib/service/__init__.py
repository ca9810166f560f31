"""The questions of the page, the API, MCP and the command line: one function each, checked arguments in, plain JSON out."""
