"""The shapes of every answer, as page, API, MCP and command line read them."""
