"""What the page, the API, MCP and the command line ask for: one function per question, checked arguments in, plain JSON out."""
