"""Official clients: which are taken, what their classes say, and which credentials of the environment ask for one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic.lib.bedrock import AsyncAnthropicBedrock

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import InputValidationError
from agent_nodes.providers.base import ModelEntry
from agent_nodes.providers.catalog import key_for
from agent_nodes.providers.clients import ClientEndpoint, api_of_client, endpoint_of_client, secrets_of
from agent_nodes.providers.connect import connect
from agent_nodes.providers.credentials import other_credentials


def plain() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(verify=False)  # loads no certificates


def bedrock(**options: Any) -> AsyncAnthropicBedrock:
    return AsyncAnthropicBedrock(aws_region="eu-west-1", http_client=plain(), **options)


def azure(**options: Any) -> openai.AsyncAzureOpenAI:
    options = {"azure_endpoint": "https://mine.openai.azure.com", "api_version": "2026-10-01", **options}
    return openai.AsyncAzureOpenAI(api_key="az-secret", http_client=plain(), **options)


class OwnAnthropic(anthropic.AsyncAnthropic):
    """A class of a user's own."""


@pytest.mark.parametrize(
    ("client", "found"),
    [
        (
            anthropic.AsyncAnthropic(api_key="k", base_url="https://gate.test/a/", http_client=plain()),
            ClientEndpoint("anthropic", "anthropic-messages", "https://gate.test/a"),
        ),
        (
            OwnAnthropic(api_key="k", base_url="https://api.anthropic.com", http_client=plain()),
            ClientEndpoint("anthropic", "anthropic-messages", "https://api.anthropic.com"),
        ),
        (
            bedrock(api_key="k"),
            ClientEndpoint("anthropic", "anthropic-messages", "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ),
        (
            openai.AsyncOpenAI(api_key="k", base_url="http://u:hunter22@127.0.0.1:8000/v1/", http_client=plain()),
            ClientEndpoint("openai", "openai-responses", "http://127.0.0.1:8000/v1"),
        ),
        (azure(), ClientEndpoint("openai", "openai-responses", "https://mine.openai.azure.com/openai")),
    ],
)
@pytest.mark.feature("C01")
def test_a_client_says_its_provider_protocol_and_address(client: object, found: ClientEndpoint) -> None:
    assert endpoint_of_client(client) == found
    assert api_of_client(client) == found.api


def closed(client: Any) -> Any:
    client._client._state = type(client._client._state).CLOSED
    return client


@pytest.mark.parametrize(
    ("client", "api", "says"),
    [
        (anthropic.Anthropic(api_key="k"), "anthropic-messages", "AsyncAnthropic"),
        (openai.OpenAI(api_key="k"), "openai-responses", "AsyncOpenAI"),
        (anthropic.AsyncAnthropic, "anthropic-messages", "AsyncAnthropic is no client object"),
        (object(), "anthropic-messages", "object is no client object"),
        ("sk-secret-key", "anthropic-messages", "str is no client object"),
        (plain(), "openai-responses", "AsyncClient is no client object"),
        (
            openai.AsyncOpenAI(api_key="k", http_client=plain()),
            "anthropic-messages",
            "speaks openai-responses and openai-completions, not anthropic-messages",
        ),
        (closed(anthropic.AsyncAnthropic(api_key="k", http_client=plain())), "anthropic-messages", "is closed"),
    ],
)
def test_what_is_no_usable_client_is_refused_by_name(client: object, api: str, says: str) -> None:
    entry = ModelEntry("mine", "m", api, "http://models.test")  # type: ignore[arg-type]
    with pytest.raises(InputValidationError, match=r"^client: ") as caught:
        connect(entry, None, clock=SYSTEM_CLOCK, stall_timeout=1, client=client)
    assert caught.value.field == "client"
    assert says in str(caught.value) and "sk-secret" not in str(caught.value)


def test_the_keys_that_a_client_holds_are_known() -> None:
    assert secrets_of(bedrock(aws_access_key="a", aws_secret_key="aws-s", aws_session_token="aws-t")) == (
        "aws-s",
        "aws-t",
    )
    assert secrets_of(azure()) == ("az-secret",)
    assert secrets_of(anthropic.AsyncAnthropic(auth_token="tok", http_client=plain())) == ("tok",)


def test_no_sdk_is_loaded_to_refuse_an_object() -> None:
    program = """
import sys
from agent_nodes.errors import InputValidationError
from agent_nodes.providers.clients import endpoint_of_client

try:
    endpoint_of_client(object())
except InputValidationError:
    print([name for name in ("anthropic", "openai", "httpx2") if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


# Credentials of the environment.

IDENTITY = {"ANTHROPIC_FEDERATION_RULE_ID": "r", "ANTHROPIC_ORGANIZATION_ID": "o", "ANTHROPIC_IDENTITY_TOKEN": "t"}


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, False),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}, False),
        ({"ANTHROPIC_API_KEY": " ", "ANTHROPIC_AUTH_TOKEN": "t"}, True),
        ({"ANTHROPIC_PROFILE": "work"}, True),
        (IDENTITY, True),
        ({**IDENTITY, "ANTHROPIC_IDENTITY_TOKEN": "", "ANTHROPIC_IDENTITY_TOKEN_FILE": "/f"}, True),
        ({**IDENTITY, "ANTHROPIC_ORGANIZATION_ID": ""}, False),
        ({"ANTHROPIC_CONFIG_DIR": "/no/such/folder"}, False),
    ],
)
def test_credentials_other_than_a_key(environ: dict[str, str], asked: bool) -> None:
    assert other_credentials(environ) is asked
    if asked:
        assert key_for("anthropic", None, environ) is None
        with pytest.raises(InputValidationError):
            key_for("openai", None, environ)
    elif "ANTHROPIC_API_KEY" not in environ:
        with pytest.raises(InputValidationError, match="ANTHROPIC_API_KEY"):
            key_for("anthropic", None, environ)


@pytest.mark.parametrize("by", ["default", "pointer", "nothing"])
def test_a_profile_on_disk(tmp_path: Path, by: str) -> None:
    folder = tmp_path / ".config" / "anthropic"
    (folder / "configs").mkdir(parents=True)
    (folder / "configs" / "stray.json").write_text("{}")
    if by == "default":
        (folder / "configs" / "default.json").write_text(json.dumps({}))
    if by == "pointer":
        (folder / "active_config").write_text("work\n")
    assert other_credentials({"HOME": str(tmp_path)}) is (by != "nothing")
    assert other_credentials({"ANTHROPIC_CONFIG_DIR": str(folder)}) is (by != "nothing")
