"""What an official client object is, read from its class alone: no SDK is loaded to tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ApiKind

SdkName = Literal["anthropic", "openai"]

_APIS: Mapping[SdkName, tuple[ApiKind, ...]] = {
    "anthropic": ("anthropic-messages",),
    "openai": ("openai-responses", "openai-completions"),
}
# These send a body as it is given; the others (Bedrock, Vertex, Azure, …) read and change it on its way.
_PLAIN = frozenset({"AsyncAnthropic", "AsyncOpenAI"})
_SECRETS = (
    "api_key",
    "auth_token",
    "admin_api_key",
    "access_token",
    "aws_secret_key",
    "aws_session_token",
    "_azure_ad_token",
)


@dataclass(frozen=True, slots=True)
class ClientEndpoint:
    """``provider`` is the package the client comes from, ``api`` the protocol it is used with unless told otherwise.

    ``base_url`` is in the form of ``ModelEntry.base_url`` and holds no user name or password.
    """

    provider: SdkName
    api: ApiKind
    base_url: str


def endpoint_of_client(client: object) -> ClientEndpoint:
    """Where ``client`` sends its requests. Raises ``InputValidationError`` where it cannot be used as one."""
    sdk = _sdk_of(client)
    return ClientEndpoint(sdk, _APIS[sdk][0], _address(client))


def api_of_client(client: object) -> ApiKind:
    """The protocol that ``client`` is used with unless told otherwise. Raises ``InputValidationError``."""
    return _APIS[_sdk_of(client)][0]


def check_client(client: object, api: str) -> SdkName:
    """The package that ``client`` comes from, if requests of ``api`` can go through it now.

    Raises ``InputValidationError`` where it is no asynchronous client, is closed, or speaks another protocol.
    """
    sdk = _sdk_of(client)
    if api not in _APIS[sdk]:
        raise _wrong(f"{type(client).__name__} speaks {' and '.join(_APIS[sdk])}, not {api}; set api_kind to fit.")
    if is_closed(client):
        raise _wrong(f"the {type(client).__name__} is closed; give one that is open for as long as the agent is.")
    return sdk


def is_closed(client: Any) -> bool:
    return bool(client.is_closed())


def changes_bodies(client: object) -> bool:
    """Whether the client reads the body of a request, to move the model into the path or add a version."""
    home = next(cls for cls in type(client).__mro__ if _root(cls) in _APIS)
    return home.__name__ not in _PLAIN


def secrets_of(client: object) -> Sequence[str]:
    """The keys and tokens that the client holds now; they may be renewed at any time."""
    found = (getattr(client, name, None) for name in _SECRETS)
    return tuple(value for value in found if isinstance(value, str) and value)


def _sdk_of(client: object) -> SdkName:
    names = {(_root(cls), cls.__name__) for cls in type(client).__mro__}
    for sdk in _APIS:
        if (sdk, "AsyncAPIClient") in names:
            return sdk
        if (sdk, "SyncAPIClient") in names:
            name = type(client).__name__
            raise _wrong(f"{name} blocks while it waits; give an asynchronous client, as Async{name} is.")
    given = client.__name__ if isinstance(client, type) else type(client).__name__
    raise _wrong(
        f"{given} is no client object of the packages anthropic and openai; give AsyncAnthropic(...), "
        "AsyncOpenAI(...) or one of their kin."
    )


def _root(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _address(client: Any) -> str:
    parts = urlsplit(str(client.base_url))
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, path=parts.path.rstrip("/"), query="", fragment="").geturl()


def _wrong(reason: str) -> InputValidationError:
    return InputValidationError(f"client: {reason}", field="client")
