"""Random Markdown for tests: fragments that open, close and tear blocks, and any text between them."""

from __future__ import annotations

from hypothesis import strategies as st

# fmt: off
FRAGMENTS = st.sampled_from([
    "```", "````", "~~~", "~~~~", "```py", "``` `", "- ", "* ", "1. ", "2. ", "10) ", "> ",
    ">", "  ", "    ", "\t", " ", "\n", "\n", "\n", "\n\n", "\r\n", "\r", "a. B", "Uno. Dos",
    "texto", "# ", "---", "===", "***", "a. B!", "etc. ", "<div>", "</div>", "<b>", "<!--",
    "-->", "<script>", "</script>", "<?", "?>", "<Card", "<Tab x={1}>\n", "[a]: /u",
    "[^1]: Nota. Mas", "import x from 'y'", "| a | b |\n", "|---|---|\n", "a | b\n", "--- | ---\n",
    "\xa0", "\u2028", "\x0b", "\x0c", "\0", "\ud800", "$", "`", "`a. B`", "**", "(", ")", "\"",
    "«", "»", "…", "+", "-", "=", "\\", "[", "]", "](x. Y)", "_", "¿", "é",
])
# fmt: on
ANY_TEXT = st.text(st.characters(), max_size=6)  # lone surrogates too
MARKDOWN = st.lists(st.one_of(FRAGMENTS, FRAGMENTS, FRAGMENTS, ANY_TEXT), max_size=30).map("".join)

# Line by line, so that most texts are Markdown as people write it, if people wrote at random.
MARKS = st.lists(
    st.sampled_from(["", "", "", "- ", "* ", "1. ", "2. ", "10) ", "> ", "  ", "   ", "\t"]), max_size=3
)
# fmt: off
CONTENTS = st.sampled_from([
    "", "", "", "Uno. Dos", "Uno. Dos", "a. B!", "texto", "etc. Y", "# Uno. Dos", "#", "---", "===", "***", "+++",
    "```", "```", "```py", "````", "~~~", "`a. B`", "<div>", "</div>", "<b>", "<b>Uno. Dos</b>", "<!--", "-->",
    "<!-- a. B -->", "<script>", "</script>", "<?", "?>", "<!X", "<Card", "/>", "a | b\n--- | ---", "a. B | c",
    "*", "2.", "a | b\n:-- | --:\nc. D | e", "| a | b |\n|---|---|\n| c. D | e |", "-", "1.", "=", "a\\",
    "[a]: /u 'b. C'", "import x from 'y'", "\xa0", "\u2028 Uno", "\x0b", "\0",
])
# fmt: on
LINE_ENDS = st.sampled_from(["\n", "\n", "\n", "\n\n", "\r\n", "\r"])
LINES = st.builds(lambda marks, content, end: "".join([*marks, content, end]), MARKS, CONTENTS, LINE_ENDS)
LINED_MARKDOWN = st.lists(LINES, min_size=1, max_size=14).map("".join)
