"""What the commands that hold a conversation share: which session and which model their options mean, and the command
lines that come back to them."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import InputValidationError, SessionBusy
from agent_nodes.providers.credentials import credentials_named
from agent_nodes.store.locate import is_file, session_file
from conversation.host import PROJECT, SESSION_KEY, ConversationHost, named_session
from conversation.problems import KEY_VARIABLES, OPTIONS, command, problem
from conversation.workspace import ConfiguredModel, load_models, options_of

# In this order: with both keys the first one's provider answers.
KEYS: dict[str, str] = dict(zip(("anthropic", "openai"), KEY_VARIABLES, strict=True))
DEMO = "demo"
NO_KEY = f"no key is set ({' or '.join(KEYS.values())}); the demo answers, a script and no language model"


@dataclass(frozen=True, slots=True)
class Opening:
    """A session that is still to be opened. ``demo``: the demo answers because there is no key. ``configured``: the
    entry of ``agent-nodes.toml`` that the model is."""

    given: Namespace
    host: ConversationHost
    demo: bool
    configured: ConfiguredModel | None = None

    @property
    def key(self) -> str:
        """The session's name as it was given, of a new one the name that was made for it."""
        return self.given.session if self.given.session is not None else self.host.session.conversation_id

    def check_model(self) -> None:
        """Call it once the session is open. Raises ``InputValidationError`` where only the missing key would hand a
        session that was with a real model to the demo."""
        last = self.host.last_model
        if self.demo and last is not None and last[0] != DEMO:
            variable = KEYS.get(last[0])
            need = f"set {variable}" if variable else "give the --provider and --base-url it was used with"
            raise InputValidationError(
                f"The session {self.key!r} is with {last[0]} ({last[1]}): {need}, or choose --provider {DEMO}.",
                field="provider",
            )

    def problem(self, error: Exception) -> str:
        """What went wrong on one line; the session is called by the name that was given."""
        text = problem(error)
        if isinstance(error, SessionBusy):
            return text.replace(f"session {self.host.path}", f"session {self.key!r}")
        return text

    def again(self, name: str, *more: str, **changed: Any) -> str:
        """The command line that calls ``name`` on this session with the same options, but for ``changed`` ones."""
        values = {**vars(self.given), **changed}
        words = ["--session", self.key, *self._where()]
        for option, flag in OPTIONS.items():
            value = values.get(option)
            if isinstance(value, list):
                words += [word for item in value for word in (flag, str(item))]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            elif value is not None:
                words += [flag, str(value)]
        return command(name, *words, *more)

    def endpoint(self) -> str:
        """Where an entry of a file leads that names an address of its own, else empty."""
        entry, named = self.configured, self.given.base_url
        if entry is None or entry.base_url is None or named is not None:
            return ""
        return f"{entry.id} is {entry.provider} at {entry.base_url}, by {entry.file}"

    def shown(self) -> str:
        """The command line that shows this session."""
        return command("sessions", "show", self.key, *self._where())

    def _where(self) -> list[str]:
        """Which of several sessions of that name."""
        names = {"--project": self.given.project, "--session-key": self.given.session_key}
        return [word for flag, name in names.items() if name is not None for word in (flag, name)]


def opening_of(given: Namespace) -> Opening:
    """What the options mean. Raises ``InputValidationError`` for wrong ones, before anything is opened."""
    ref = named_session(_new_key() if given.session is None else given.session, given.session_key, given.project)
    options = _options(given)
    configured = _configured(options)
    if configured is not None:
        options = _with_file(configured, options)
    demo = options["provider"] is None
    if demo:
        options["provider"] = provider_for(options, os.environ)
        demo = options["provider"] == DEMO
    _check_own(options)
    host = ConversationHost(ref.project, ref.conversation_id, ref.session_key, options=options)
    return Opening(given, host, demo, configured)


def check_names(given: Namespace) -> None:
    """Raises ``InputValidationError`` for a session that cannot be meant."""
    if given.session is not None and not given.session.strip():
        raise InputValidationError("--session: empty; give the key of a session.", field="session")
    if given.session is None and (given.project is not None or given.session_key is not None):
        raise InputValidationError("--project and --session-key need the --session they belong to.", field="session")


def _options(given: Namespace) -> dict[str, Any]:
    values = vars(given)
    return {name: values[name] for name in OPTIONS if values.get(name) is not None or name == "provider"}


def _configured(options: Mapping[str, Any]) -> ConfiguredModel | None:
    """The entry of that id; at a provider that is named and is another one the id means that provider's model."""
    model, provider = options.get("model"), options["provider"]
    if not model:
        return None
    found = next((entry for entry in load_models(Path.cwd()) if entry.id == model), None)
    return found if found is not None and provider in (None, found.provider) else None


def _with_file(configured: ConfiguredModel, options: Mapping[str, Any]) -> dict[str, Any]:
    """What is given here comes first. The file's key is for the file's address alone, and not for the commands that a
    model runs, which are children of this process."""
    from_file = options_of(configured, os.environ)
    if configured.api_key_env not in (None, *KEY_VARIABLES):
        os.environ.pop(configured.api_key_env, None)
    given = {name: value for name, value in options.items() if name != "model" and value is not None}
    if given.get("base_url", configured.base_url) != configured.base_url:
        from_file.pop("api_key", None)
    return from_file | given


def provider_for(options: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Who answers when nobody was named. Never a guess that sends a key to an address it is not for."""
    if options.get("base_url"):
        raise InputValidationError(
            "--base-url: name the provider too: --provider anthropic, --provider openai, or a name of your own for a "
            "server that needs no key.",
            field="provider",
        )
    for provider, variable in KEYS.items():
        if environ.get(variable, "").strip():
            return provider
    if credentials_named(environ):
        return "anthropic"
    model = options.get("model")
    if model is not None and not model.startswith(DEMO):
        raise InputValidationError(
            f"No key for the model {model!r}: set {' or '.join(KEYS.values())}, or name a --provider.",
            field="provider",
        )
    return DEMO


def _check_own(options: Mapping[str, Any]) -> None:
    """A server of one's own has no defaults: all that is missing is said at once."""
    if options["provider"] in (*KEYS, DEMO):
        return
    needs = {"base_url": "--base-url URL", "model": "-m MODEL"}
    missing = [flag for name, flag in needs.items() if not options.get(name)]
    if missing:
        raise InputValidationError(
            f"--provider: {options['provider']!r} is none of {', '.join((*KEYS, DEMO))}; for a server of your own give "
            f"{' and '.join(missing)} too.",
            field="provider",
        )


def _new_key() -> str:
    while True:
        key = SYSTEM_CLOCK.new_id()[:8]
        if not is_file(session_file(PROJECT, key, SESSION_KEY)):
            return key
