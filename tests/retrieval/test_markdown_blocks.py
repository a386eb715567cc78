"""The block pass against markdown-it-py, on random Markdown: what must stay whole does, and nothing joins."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.retrieval.sentences import split_sentences, split_spans

from .markdown_oracle import owners_of, read_otherwise, whole_pieces
from .random_markdown import LINED_MARKDOWN, MARKDOWN

JUDGED = st.one_of(LINED_MARKDOWN, LINED_MARKDOWN, MARKDOWN)
# A third of the texts hold something that the oracle reads otherwise on purpose, and are left out.
FILTERS_MUCH = [HealthCheck.filter_too_much, HealthCheck.too_slow]


@settings(max_examples=800, suppress_health_check=FILTERS_MUCH)
@given(JUDGED)
def test_no_cut_is_inside_a_block(text: str) -> None:
    assume(not read_otherwise(text))
    spans = split_spans(text)
    for owner, (start, end) in whole_pieces(text):
        held = any(first <= start and end <= last for first, last in spans)
        assert held, (owner, text[start:end], split_sentences(text))


@settings(max_examples=1500, suppress_health_check=FILTERS_MUCH)
@given(JUDGED)
def test_no_unit_is_of_two_blocks(text: str) -> None:
    assume(not read_otherwise(text))
    for (start, end), owners in owners_of(text, split_spans(text)):
        assert len(owners) <= 1, (owners, text[start:end])


@settings(max_examples=800, suppress_health_check=FILTERS_MUCH)
@given(JUDGED)
def test_a_paragraph_is_cut_after_stops_only(text: str) -> None:
    assume(not read_otherwise(text))
    # Without units of markers alone, which are no block's: what stands around them is compared.
    units = [unit for unit in owners_of(text, split_spans(text)) if unit[1]]
    for ((_, end), before), ((start, _), after) in pairwise(units):
        if before == after and {kind for kind, _ in filter(None, before)} == {"paragraph_open"}:
            assert text[end - 1] in ".!?", (text[:end], text[start:])
