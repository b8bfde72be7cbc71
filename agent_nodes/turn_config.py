"""From options and the overrides of one turn to what it runs with: model, connection, prompt, tools, folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_nodes._clock import Clock
from agent_nodes.engine.config import TurnConfig
from agent_nodes.engine.prompt import prompt_sections
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject, SystemMessage
from agent_nodes.providers import catalog
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.runtime_options import Options
from agent_nodes.tools.policy import resolve, roots

_OF_THE_MODEL = ("provider", "model", "base_url", "api_kind", "model_attributes")


class TurnConfigs:
    """Makes the configuration of each turn. Models of the same address share a connection, which lasts to
    :meth:`close`. ``given`` is a model with its provider, used by every turn in place of any that the options name."""

    def __init__(
        self,
        options: Options,
        clock: Clock,
        environ: Mapping[str, str],
        given: tuple[ModelEntry, Provider] | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._environ = environ
        self._given = given
        self._providers: dict[tuple[str, ...], Provider] = {}
        self.base = self.of({})

    def of(self, overrides: JsonObject, *, section: str = "") -> TurnConfig:
        """What a turn with ``overrides`` (fields of its input) runs with; ``section`` is text of its host, which stands
        behind the prompt.

        Raises :class:`InputValidationError` naming the field that is wrong or cannot be had here.
        """
        options = self._merged(overrides)
        entry, provider = self._model(options, overrides)
        workdir = real_folder(options.workdir)
        reach = roots(options.permission_policy, workdir, options.allowed_directories)
        tools = resolve(options.permission_policy, options.tools, options.extra_tools, options.tool_definitions)
        sections = prompt_sections(options.system_prompt, tools, workdir, section)
        api = "openai-completions" if entry.api == "demo" else entry.api
        system = SystemMessage(sections, tuple(tool.spec() for tool in tools), api, entry.provider, entry.model)
        return TurnConfig(
            model=entry,
            provider=provider,
            system=system,
            tools={tool.name: tool for tool in tools},
            workdir=workdir,
            roots=reach,
            effort=options.effort,
            max_tokens=options.max_tokens,
        )

    def secrets(self) -> Sequence[str]:
        """The keys that the open connections use, and the one of the options."""
        found = {self._options.api_key or ""}
        for provider in self._providers.values():
            held: Callable[[], Sequence[str]] | None = getattr(provider, "secrets", None)
            found.update(() if held is None else held())
        return sorted(found - {""})

    async def close(self) -> None:
        """Close every connection."""
        providers = list(self._providers.values())
        self._providers.clear()
        if self._given is not None:
            providers.append(self._given[1])
        for provider in providers:
            await provider.close()

    # -- options -------------------------------------------------------------------------------------------------------

    def _merged(self, overrides: JsonObject) -> Options:
        options = self._options
        if not overrides:
            return options
        changes: dict[str, Any] = dict(overrides)
        if options.resolved_model is not None:
            for name in _OF_THE_MODEL:
                if name in changes:
                    raise InputValidationError(
                        f"input.{name}: every turn of this agent uses its resolved_model; leave it out", field=name
                    )
        if "allowed_directories" in changes:
            changes["allowed_directories"] = tuple(changes["allowed_directories"])
        elif "workdir" in changes:
            changes["allowed_directories"] = ()  # those of the options belong to their own folder
        if "model_attributes" in changes:
            from agent_nodes.model_attributes import AgentModelAttributes

            changes["model_attributes"] = AgentModelAttributes.from_json(changes["model_attributes"])
        if self._options.client is not None and "base_url" in changes and "provider" not in changes:
            raise InputValidationError("input.base_url: the agent's client has an address of its own", field="base_url")
        # What describes one model, or one address, says nothing of another.
        if changes.get("provider", self._provider_name()) != self._provider_name():
            options = replace(options, model=None, base_url=None, api_kind=None, client=None, model_attributes=None)
        elif any(changes.get(name) not in (None, getattr(options, name)) for name in ("model", "base_url")):
            options = replace(options, model_attributes=None)
        return replace(options, **changes)

    def _provider_name(self) -> str | None:
        return self.base.model.provider

    # -- the model -----------------------------------------------------------------------------------------------------

    def _model(self, options: Options, overrides: JsonObject) -> tuple[ModelEntry, Provider]:
        if self._given is not None:
            return _given_model(*self._given, overrides)
        provider, base_url, api_kind = options.provider, options.base_url, options.api_kind
        if options.client is not None:
            from agent_nodes.providers.clients import endpoint_of_client

            endpoint = endpoint_of_client(options.client)
            provider, base_url = provider or endpoint.provider, endpoint.base_url
            api_kind = api_kind or endpoint.api
        if options.resolved_model is not None:
            entry = _sized(options.resolved_model, options)
        else:
            entry = catalog.resolve(
                provider=provider,
                model=options.model,
                base_url=base_url,
                api_kind=api_kind,
                context_window=options.context_window,
                max_tokens=options.max_tokens,
                environ=self._environ,
                attributes=options.model_attributes,
                registry=options.models,
            )
        return entry, self._provider(entry, options, overrides)

    def _provider(self, entry: ModelEntry, options: Options, overrides: JsonObject) -> Provider:
        # A client has a key of its own.
        key = None if options.client else catalog.key_for(entry.provider, *self._keys(entry, overrides))
        address = (entry.api, entry.provider, entry.base_url, key or "")
        found = self._providers.get(address)
        if found is None:
            from agent_nodes.providers.connect import connect

            found = connect(entry, key, clock=self._clock, stall_timeout=options.stall_timeout, client=options.client)
            self._providers[address] = found
        return found

    def _keys(self, entry: ModelEntry, overrides: JsonObject) -> tuple[str | None, Mapping[str, str]]:
        """The option's key and the environment, as far as this endpoint may see them: an address that came with a turn
        gets no key that was given for another."""
        registered = self._options.models.key_of(entry) if self._options.models is not None else None
        if registered is not None:
            return registered, {}
        if not overrides or _origin(entry.base_url) == _origin(self.base.model.base_url):
            return self._options.api_key, self._environ
        if "base_url" in overrides:
            return None, {}
        return None, self._environ


def real_folder(given: str | Path | None) -> Path:
    """The working directory that ``given`` means, the process's own for None."""
    try:
        return Path(os.path.realpath(given or Path.cwd()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds a character that no path can have"
        raise InputValidationError(f"workdir: cannot be used: {reason}", field="workdir") from error


def _given_model(entry: ModelEntry, provider: Provider, overrides: JsonObject) -> tuple[ModelEntry, Provider]:
    names = ("provider", "model", "base_url", "context_window", "max_tokens")
    return replace(entry, **{name: overrides[name] for name in names if name in overrides}), provider


def _sized(entry: ModelEntry, options: Options) -> ModelEntry:
    window, output = options.context_window or entry.context_window, options.max_tokens or entry.max_tokens
    return replace(entry, context_window=window, max_tokens=output)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
