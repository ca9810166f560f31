"""The app's tools through the protocol's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

Result = TypeVar("Result")


def with_session(url: str, ask: Callable[[ClientSession], Awaitable[Result]]) -> Result:
    """Open a session as any client would, ask, and close it."""

    async def session() -> Result:
        async with streamable_http_client(f"{url}/gradio_api/mcp/") as (read, write, _), ClientSession(read, write) as opened:
            await opened.initialize()
            return await ask(opened)

    return asyncio.run(session())


def call(url: str, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call one tool."""
    return with_session(url, lambda session: session.call_tool(tool, arguments))
