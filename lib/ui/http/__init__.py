"""HTTP apart from the page: middleware in front of Gradio, the public endpoints, MCP, and how the app is served."""
