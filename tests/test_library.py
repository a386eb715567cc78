"""The parts of one knowledge base, wired by its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import LONGEST_QUESTION, Library


def test_a_question_of_any_length_is_embedded_by_its_beginning(
    library: Library, write: Callable[[str, str], Path]
) -> None:
    write("wiki/a.md", "# A\n\nHola a todos.\n")
    write("docs/b.md", "# B\n\nAdiós a todos.\n")
    index_all(library)
    text = "hola " * LONGEST_QUESTION
    question = library.question(text)
    assert question.text == text
    np.testing.assert_array_equal(question.vector, library.question(text[:LONGEST_QUESTION]).vector)
    assert question.fingerprint == library.index.snapshot().generation.fingerprint
