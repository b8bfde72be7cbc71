"""Keys taken out of texts that others will read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_SHORTEST_SECRET = 4  # anything shorter hides nothing and would blot out half a text


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with ``***`` for every secret, also where it is quoted or lost its outer blanks."""
    forms: set[str] = set()
    for secret in secrets:
        bare = secret.strip()
        forms |= {secret, bare, repr(bare)[1:-1]}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _SHORTEST_SECRET:
            text = text.replace(form, "***")
    return text


def seal(error: BaseException, secrets: Sequence[str]) -> None:
    """Take every secret out of the texts of ``error`` and of what caused it: whoever raised one of them may have had
    it, and programs around us print and store them all."""
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while secrets and chain:
        link = chain.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        link.args = tuple(redact(each, secrets) if isinstance(each, str) else each for each in link.args)
        chain += [link.__cause__, link.__context__]
