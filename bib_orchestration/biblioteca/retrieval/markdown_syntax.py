"""What the lines of a Markdown text look like: one pattern for each thing that can begin or end a block.

Save where a comment says otherwise, patterns are to be matched at the first mark of a line (`match(line,
at)`) whose tabs were expanded, and look no further than its end. All are linear: where a repetition could
be given back, it is possessive.
"""

from __future__ import annotations

import re
from typing import Final

CODE_INDENT: Final = 4

# str.splitlines() would also cut at U+2028, U+0085, \x0b and \x0c, which are no line ends in Markdown.
LINE_END = re.compile(r"(\r\n|\n|\r)")
_INDENT = re.compile(r" *+")
FRONT_MATTER_MARK = re.compile(r"\ufeff?---[ \t]*+\Z")
FRONT_MATTER_END = re.compile(r"(?:---|\.\.\.)[ \t]*+\Z")

HEADING = re.compile(r"#{1,6}+(?: |\Z)")
SETEXT_UNDERLINE = re.compile(r"(?:=++|-++) *+\Z")
RULE = re.compile(r"([-_*]) *+(?:\1 *+){2,}+\Z")
ITEM = re.compile(r"(?:[-+*]|([0-9]{1,9})[.)])(?= |\Z)")
# The first marks of an item, and of every other block that is no paragraph but for quotes and code.
ITEM_MARKS: Final = "-+*0123456789"
LEAF_MARKS: Final = "#=-_*`~<"

FENCE_OPENING = re.compile(r"(?:(`{3,}+)(?![^`]*`)|(~{3,}+))")

_ATTRIBUTE = r"""(?:\s++[A-Za-z_:][\w:.-]*+(?:\s*+=\s*+(?:[^"'=<>`\s]++|'[^']*+'|"[^"]*+"))?+)"""
_HTML_NAMES = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div"
    "|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li"
    "|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td"
    "|tfoot|th|thead|title|tr|track|ul"
)
BLANK_LINE = re.compile(r"(?!)")  # never found in a line: such a block ends only where a blank line does
# The seven start conditions of the specification with the pattern that ends each block.
_HTML_STARTS = (
    (
        re.compile(r"<(?:script|pre|style|textarea)(?:\s|>|\Z)", re.I),
        re.compile(r"</(?:script|pre|style|textarea)>", re.I),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(rf"</?(?:{_HTML_NAMES})(?:\s|/?>|\Z)", re.I), BLANK_LINE),
)
_LONE_TAG = re.compile(
    rf"(?:<[A-Za-z][A-Za-z0-9-]*+{_ATTRIBUTE}*+\s*+/?>|</[A-Za-z][A-Za-z0-9-]*+\s*+>)\s*+\Z"
)

TABLE_ROW = re.compile(r" {0,3}\|[^\r\n]*\|[ \t]*+\Z")
TABLE_DELIMITER = re.compile(r"(?=[^|]*\|) {0,3}(?!- )\|?+(?:[ \t]*+:?+-++:?+[ \t]*+(?:\||\Z))++[ \t]*+\Z")
FOOTNOTE = re.compile(r" {0,3}\[\^[^\]\s]++\]:")
DEFINITION = re.compile(
    r""" {0,3}\[(?=[^\]]*[^\]\s])(?:[^\[\]\\]|\\.)++\]:\s*+(?:<[^<>]*+>|[^\s<]\S*+)"""
    r"""(?:\s++(?:"[^"]*+"|'[^']*+'|\([^()]*+\)))?+\s*+\Z"""
)
MODULE_LINE = re.compile(
    r"import\s++(?:type\s++)?+(?:['\"{*]|[\w$]++(?:\s*+,|\s++from\s*+['\"]))"
    r"|export\s++(?:[{*]|(?:default|const|let|var|function|class|async|type|interface)\b)"
)
# A tag that the first line leaves open, or a first line that a tag begins and ends: JSX that CommonMark,
# which knows no JSX, reads as a paragraph.
TAG_LINE = re.compile(r" {0,3}<[A-Za-z/>](?:[^>]*+\Z|.*>\s*+\Z)")
# One look before the four above: most lines begin like none of them.
SPECIAL_START = re.compile(r" {0,3}[\[<]|import\s|export\s")


def indent_at(line: str, at: int) -> int:
    """Return how many spaces stand at column `at`."""
    if not line.startswith(" ", at):  # the usual case, at a third of the cost
        return 0
    match = _INDENT.match(line, at)
    return match.end() - at if match else 0


def after_quote_mark(line: str, mark: int) -> int:
    """Return the column where what a `>` at `mark` quotes begins."""
    return mark + 2 if line[mark + 1 : mark + 2] == " " else mark + 1


def closes_fence(line: str, at: int, marks: str) -> bool:
    """Tell if `line`, from column `at` on, closes the fence that `marks` opened."""
    indent = indent_at(line, at)
    closing = line[at + indent :].rstrip(" ")
    return indent < CODE_INDENT and len(closing) >= len(marks) and not closing.strip(marks)


def html_block_end(line: str, mark: int, in_paragraph: bool) -> re.Pattern[str] | None:
    """Return the pattern that ends the HTML block that begins at `mark`, or None if none begins there."""
    if line[mark] != "<":
        return None
    for start, end in _HTML_STARTS:
        if start.match(line, mark):
            return end
    if not in_paragraph and _LONE_TAG.match(line, mark):
        return BLANK_LINE
    return None
