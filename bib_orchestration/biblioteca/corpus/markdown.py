"""Markdown to chunks, by heading and block: a chunk is a run of whole blocks of one section.

Which blocks stand together is chosen by their contents (see `packing`), so that what is inserted changes
the chunks beside it and no others.

Cutting is done on the normal text (see `normal_text`), so that another line ending cuts in the same places;
offsets are those of the text as given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bib_orchestration.biblioteca.corpus.blocks import Block, is_mdx_statement, read_blocks, says_nothing
from bib_orchestration.biblioteca.corpus.front_matter import parse_front_matter
from bib_orchestration.biblioteca.corpus.large_blocks import pieces_of
from bib_orchestration.biblioteca.corpus.normal_text import NormalText, normal
from bib_orchestration.biblioteca.corpus.packing import Piece, joined, runs
from bib_orchestration.biblioteca.corpus.sizes import CHARACTERS_A_TOKEN, count_tokens

# Rises when the same text would give other chunks: they are then cut anew.
CHUNKER_VERSION = "1"
MAX_TOKENS = 400
MIN_TOKENS = 60
PATH_SEPARATOR = " > "
_BOM = "\ufeff"
_INTRODUCES = re.compile(r"(?::|^[ \t]*+<[A-Za-z][^<>\n]*+(?<!/)>)\Z", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of blocks.

    text: the slice `document[start:end]`, as written.
    start, end: offsets in the document, in code points.
    line_start, line_end: first and last line, 1-based.
    heading_path: the headings above it, joined by " > "; "" before the first one.
    body: the slice in normal form, with the header of a cut table or the fences of cut code put back.
    tokens: of the body.
    """

    text: str
    start: int
    end: int
    line_start: int
    line_end: int
    heading_path: str
    body: str
    tokens: int


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading, and the blocks below it up to the next heading of any level."""

    path: tuple[str, ...]
    level: int
    blocks: tuple[Block, ...]

    def may_join_next(self, following: _Section | None) -> bool:
        """Only prose joins its next sibling: code and its heading are looked for together."""
        return (
            following is not None
            and following.level == self.level
            and following.path[:-1] == self.path[:-1]
            and bool(following.blocks)
            and not any(map(_holds_a_fence, self.blocks))
        )


def _holds_a_fence(block: Block) -> bool:
    return block.kind == "fence" or any(map(_holds_a_fence, block.parts))


@dataclass(frozen=True, slots=True)
class _Atom:
    """What packing never tears: a piece, and the heading path a chunk has that starts with it."""

    piece: Piece
    path: tuple[str, ...]


def chunk_markdown(
    text: str, *, max_tokens: int = MAX_TOKENS, min_tokens: int = MIN_TOKENS, mdx: bool = False
) -> list[Chunk]:
    """Cut a Markdown document into chunks of at most `max_tokens` tokens (characters / 4, rounded up).

    Front matter and headings are in no chunk's text, but for the headings inside joined sections: a section
    of prose under `min_tokens` joins its next sibling. A fence, a table row or a list item that fits into
    `max_tokens` is never torn. What says nothing makes no chunk: rules, comments and bare tags alone and,
    with `mdx`, import and export statements at the head of a section, or alone in it.

    >>> [(c.heading_path, c.text) for c in chunk_markdown("# Sede\\n\\nAbre a las 9.\\n\\n## Aviso\\n\\nHoy no.")]
    [('Sede', 'Abre a las 9.'), ('Sede > Aviso', 'Hoy no.')]
    """
    bom = len(text) - len(text.lstrip(_BOM))
    start = bom + parse_front_matter(text[bom:]).body_start
    source = NormalText(text, start)
    sections = _sections(source.lines, mdx)
    max_chars = max_tokens * CHARACTERS_A_TOKEN
    min_chars = min_tokens * CHARACTERS_A_TOKEN
    chunks = []
    for atoms in _joined(source, sections, max_chars, min_chars):
        pieces = [atom.piece for atom in atoms]
        for first, end in runs(source.text, pieces, max_chars, min_chars):
            if not says_nothing(source.text[pieces[first].start : pieces[end - 1].end]):
                chunks.append(_chunk(source, atoms[first:end]))
    return chunks


def _sections(lines: Sequence[str], mdx: bool) -> list[_Section]:
    sections: list[_Section] = []
    open_headings: list[tuple[int, str]] = []
    path: tuple[str, ...] = ()
    level = 0
    blocks: list[Block] = []

    def close() -> None:
        # What a page imports stands at its head, where it would be the first thing that a reader sees.
        while blocks and mdx and is_mdx_statement(lines, blocks[0]):
            blocks.pop(0)
        says_something = any(
            not says_nothing("\n".join(lines[block.first : block.last]))
            and not (mdx and is_mdx_statement(lines, block))
            for block in blocks
        )
        sections.append(_Section(path, level, tuple(blocks) if says_something else ()))

    for block in read_blocks(lines, mdx=mdx):
        if block.kind != "heading":
            blocks.append(block)
            continue
        close()
        open_headings = [heading for heading in open_headings if heading[0] < block.level]
        open_headings.append((block.level, block.title))
        path = tuple(title for _, title in open_headings if title)
        level, blocks = block.level, []
    close()
    return sections


def _joined(
    source: NormalText, sections: list[_Section], max_chars: int, min_chars: int
) -> Iterator[list[_Atom]]:
    """The atoms of each section; a section too short to stand alone is glued to its next sibling."""
    short: _Atom | None = None
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        atoms = [
            _Atom(piece, section.path)
            for block in section.blocks
            for piece in pieces_of(source, block, max_chars, min_chars)
        ]
        if not atoms:
            continue
        atoms = _glue_introductions(source, atoms, max_chars)
        if short is not None:
            if together := joined(short.piece, atoms[0].piece, max_chars):
                atoms[0] = _Atom(together, short.path)
            else:
                yield [short]
            short = None
        whole = Piece(atoms[0].piece.start, atoms[-1].piece.end)
        if whole.size < min_chars and section.may_join_next(following):
            short = _Atom(whole, atoms[0].path)
        else:
            yield atoms


def _glue_introductions(source: NormalText, atoms: list[_Atom], max_chars: int) -> list[_Atom]:
    """What ends in a colon or an opening tag stays with what it introduces, when both fit."""
    glued = atoms[:1]
    for before, atom in pairwise(atoms):
        introduced = _INTRODUCES.search(source.text, before.piece.start, before.piece.end)
        if introduced and (together := joined(glued[-1].piece, atom.piece, max_chars)):
            glued[-1] = replace(glued[-1], piece=together)
        else:
            glued.append(atom)
    return glued


def _chunk(source: NormalText, run: list[_Atom]) -> Chunk:
    start, end = run[0].piece.start, run[-1].piece.end
    body = run[0].piece.opening + source.text[start:end] + run[-1].piece.closing
    body = normal(body.replace("\0", ""))
    raw_start, raw_end = source.to_raw(start), source.to_raw(end)
    return Chunk(
        text=source.raw[raw_start:raw_end],
        start=raw_start,
        end=raw_end,
        line_start=source.line_number(start),
        line_end=source.line_number(end - 1),
        heading_path=PATH_SEPARATOR.join(run[0].path),
        body=body,
        tokens=count_tokens(body),
    )
