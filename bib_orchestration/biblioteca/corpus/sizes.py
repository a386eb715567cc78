"""How long a text is, in tokens: the same count for every model, so that figures can be compared."""

from __future__ import annotations

CHARACTERS_A_TOKEN = 4
# Named in every report, since another counter would give other figures.
TOKEN_COUNTER = "ceil(characters / 4)"


def count_tokens(text: str) -> int:
    """Tokens in `text`: its characters divided by four, rounded up.

    >>> [count_tokens(text) for text in ("", "hola", "hola!")]
    [0, 1, 2]
    """
    return -(-len(text) // CHARACTERS_A_TOKEN)
