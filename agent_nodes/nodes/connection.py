"""A model with its address and its key as one thing that an agent node is given: a ``ModelConnection`` block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from agent_nodes.errors import InputValidationError
from agent_nodes.providers import catalog
from agent_nodes.runtime_options import Options

OF_A_CONNECTION = (
    "provider",
    "model",
    "base_url",
    "api_kind",
    "api_key",
    "client",
    "resolved_model",
    "model_attributes",
)
"""The options that a connection stands in the place of."""

BLOCK_SLUG = "model-connection"


class Connection(Protocol):
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def api_kind(self) -> str | None: ...
    @property
    def attributes(self) -> Mapping[str, Any] | None: ...
    def key(self) -> str | None:
        """The key in clear."""
        ...


def check_connection(given: str | Connection | None, options: Mapping[str, Any]) -> str | Connection | None:
    """What ``create_agent_node(connection=...)`` takes: the name of a block or a block.

    Raises :class:`InputValidationError` for anything else, and for an option that says the same in another way.
    """
    if isinstance(given, str):
        name = given.strip().removeprefix(f"{BLOCK_SLUG}/")
        if not name:
            raise _wrong("must be the name of a ModelConnection block, or one")
        given = name
    elif given is not None and not callable(getattr(given, "key", None)):
        raise _wrong(f"must be the name of a ModelConnection block, or one; got {type(given).__name__}")
    for name in OF_A_CONNECTION if given is not None else ():
        if options.get(name) is not None:
            raise InputValidationError(
                f"create_agent_node: {name}: connection says this already; give one of the two", field=name
            )
    return given


def connected(options: Options, connection: Connection) -> Options:
    """``options`` with the model of ``connection``; its key is registered with that model, for its address alone.

    Raises :class:`InputValidationError` naming the field of the connection that is wrong.
    """
    try:
        return _connected(options, connection)
    except InputValidationError as error:
        raise InputValidationError(f"connection.{error.message}", field=f"connection.{error.field}") from None


def _connected(options: Options, connection: Connection) -> Options:
    if connection.provider == catalog.DEMO:
        return replace(options, provider=catalog.DEMO, model=connection.model)
    from agent_nodes.providers.registry import ModelRegistry

    attributes = None
    if connection.attributes:
        from agent_nodes.model_attributes import model_attributes_of

        attributes = model_attributes_of(dict(connection.attributes), where="attributes")
    entry = catalog.resolve(
        provider=connection.provider,
        model=connection.model,
        base_url=connection.base_url,
        api_kind=connection.api_kind,
        context_window=None,
        max_tokens=None,
        attributes=attributes,
        environ={},
    )
    registry = ModelRegistry() if options.models is None else options.models.copy()
    registry.register(entry, api_key=catalog.key_for("", connection.key(), {}))
    return replace(options, provider=entry.provider, model=entry.model, models=registry)


def _wrong(what: str) -> InputValidationError:
    return InputValidationError(f"create_agent_node: connection: {what}", field="connection")
