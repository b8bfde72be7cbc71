"""Who answers when nobody was named."""

from __future__ import annotations

import pytest

from conversation.opening import provider_for


@pytest.mark.feature("O01")
@pytest.mark.parametrize(
    ("environ", "provider"),
    [
        ({}, "demo"),
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "anthropic"),
        ({"OPENAI_API_KEY": "o"}, "openai"),
        ({"OPENAI_API_KEY": "o", "ANTHROPIC_AUTH_TOKEN": "t"}, "openai"),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, "anthropic"),
        ({"ANTHROPIC_PROFILE": "work"}, "anthropic"),
        ({"ANTHROPIC_API_KEY": " ", "HOME": "/nowhere"}, "demo"),
    ],
)
def test_cl_04_the_environment_says_who_answers(environ, provider):
    assert provider_for({}, environ) == provider
