"""Ask an application as a client would, without a network."""

import asyncio

import httpx


def ask(app, method, path, *, base="http://localhost", **options):
    """One request, and its answer."""

    async def one():
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **options)

    return asyncio.run(one())


def post(app, path, body, **options):
    """A request with JSON."""
    return ask(app, "POST", path, json=body, **options)
