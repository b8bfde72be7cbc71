"""A model and its key as a Prefect block: kept by the server, edited in its UI, the key encrypted.

The package names this module as a Prefect collection, so that servers and workers know the block.
"""

from __future__ import annotations

from typing import Any, Literal

from prefect.blocks.core import Block
from pydantic import Field, SecretStr, ValidationError

from agent_nodes.errors import InputValidationError, validation_error
from agent_nodes.nodes.connection import BLOCK_SLUG


class ModelConnection(Block):
    """A model, where it is, and the key to it.

    ``create_agent_node(connection="name")`` reads the block of that name when the node runs in a flow; the block itself
    can be handed over too. The key is sent to this connection's address alone. Save one with
    ``ModelConnection(provider="openai", model="gpt-5", api_key="...").save("name")``.
    """

    _block_type_name = "Model Connection"
    _block_type_slug = BLOCK_SLUG
    _description = "A language model, where it is, and the key to it: for the agent nodes of a flow."

    provider: str = Field(description="anthropic, openai, demo, or a name of your own with a base_url.")
    model: str | None = Field(default=None, description="The model's id. Left out: the provider's default.")
    base_url: str | None = Field(default=None, description="The address of a service of your own.", title="Base URL")
    api_kind: Literal["anthropic-messages", "openai-responses", "openai-completions"] | None = Field(
        default=None, description="The protocol that it speaks. Left out: the provider's own.", title="API kind"
    )
    attributes: dict[str, Any] | None = Field(
        default=None, description="What is not known of the model otherwise, such as its context_window."
    )
    api_key: SecretStr | None = Field(
        default=None, description="The key. Left out: the one in the environment of the worker.", title="API key"
    )

    def key(self) -> str | None:
        """The key in clear."""
        return None if self.api_key is None else self.api_key.get_secret_value() or None


async def load_connection(name: str) -> ModelConnection:
    """The block of that name. Raises :class:`InputValidationError` where there is none, and what Prefect raises where
    its server cannot be asked."""
    try:
        return await ModelConnection.aload(name)
    except ValidationError as error:
        raise validation_error(error, where=f"connection {name}", known=tuple(ModelConnection.model_fields)) from None
    except ValueError:
        raise InputValidationError(
            f"connection: there is no ModelConnection block named {name!r}. Make one in Prefect's UI, or save one: "
            f"ModelConnection(provider=..., api_key=...).save({name!r})",
            field="connection",
        ) from None
