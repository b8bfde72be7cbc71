"""The fake provider as a process of its own; prints its address once it listens."""

import argparse
import asyncio
import contextlib
import importlib

from tests.fakes.requests import Request
from tests.fakes.scripts import Reply, text
from tests.fakes.server import FakeServer, Respond


def echo(request: Request) -> Reply:
    """The reply of a server process started without `--respond`."""
    return text("You said: ", request.last_user_text())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes", description="fake model provider")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--respond", metavar="MODULE:FUNCTION", help="called with each request, gives the reply")
    parser.add_argument("--no-strict", action="store_true", help="accept every request")
    options = parser.parse_args()
    respond: Respond = echo
    if options.respond:
        module, _colon, name = options.respond.partition(":")
        respond = getattr(importlib.import_module(module), name)

    async def serve() -> None:
        async with FakeServer(strict=not options.no_strict, port=options.port) as fake:
            fake.respond(respond)
            print(fake.url, flush=True)
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
