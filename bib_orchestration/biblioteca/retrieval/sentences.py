"""Split Markdown in Spanish or English into sentences, and into blocks where a cut would do harm.

The rule is a literal one: a run of `.`, `!` or `?`, then white space, then a capital letter or an opening
mark. Everything else here says where that rule does not hold. In doubt there is no cut: a unit that is a
little long costs less than half a sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from bib_orchestration.biblioteca.retrieval.markdown_blocks import markdown_blocks

__all__ = ["SPLITTER_VERSION", "split_sentences", "split_spans"]

# Goes into the key of whatever is stored per sentence: raise it when any text would be split otherwise.
SPLITTER_VERSION: Final = "2"

# An abbreviation is at most this long with what may be glued to it; it bounds the look back.
LOOK_BACK: Final = 24
# "$" and "$$" begin and end math; "$$$" is a price in a review.
MAX_MATH_MARK: Final = 2
# A tag longer than this is not seen as one; it bounds the work on a text full of `<`.
MAX_TAG: Final = 1_000

# Without their last dot and in lower case. Single letters, doubled capitals (EE. UU.) and dotted letters
# (p.m., Ph.D.) have rules of their own. A word that ends sentences oftener than it is an abbreviation (en
# "in", es "sol") is left out on purpose.
_TITLES = """
    sr sra sres sras srta srtas srtos dña dª mª dr dra dres dras drs prof profa profs mr mrs messrs mme
    mlle lic licda lcdo lcda ldo lda ing arq abg mtro mtra gral cnel tte sgto cmdte cdte alte excmo excma
    excmos ilmo ilma ilmos rvdo rvda rdo mons pbro sto sta stos ntra ntro vda ud uds vd vds hno hna hnos
    hnas fdo atte phd esq supt st pdte pdta exmo exma exmos magfco emmo dtor dtora secr
    fco fdez glez hdez mtnez rguez d.phil m.phil"""
_WORKS = """
    art arts núm núms num nums nro nros nº nos pág págs pag pags pp cap caps chap chaps vol vols ed eds
    edit fig figs tabl eq eqs ec ecs secc párr párrs apdo apdos ap tít epígr fasc mss trad coord comp dir
    impr ilustr cit ibid ibíd íd ídem op loc cfr cf vid viz ref refs sig sigs ss disp adic cód exp const ch
    chs seq repr illus fra"""
_PLACES = """
    tel tels tfno telf tlf ext av avda avdas avd ave blvd rd pza plza pl plta ctra cra urb pol ind edif
    esc izq izda izqda dcha dpto depto dept dto prov pcia pdo mun gob ayto admón adm cía cia co corp inc
    ltd ltda llc bros sdad soc coop assn pvt univ inst intl govt natl asoc fund hosp mt ft bda gta pso pje
    teléf hwy rte pkwy"""
_RUNNING_TEXT = """
    etc ej p.ej gr v.gr vs approx aprox incl excl esp máx mín max ca circa al eg ie resp abrev cte ctes corr
    pral pta ptas pts cts dls kgs hab habs tm lb lbs oz hrs"""
_DATES = """
    ene feb febr abr jun jul sept sep oct nov dic jan apr aug dec lun mié miér jue vie sáb tue tues thu
    thur thurs fri"""
_ABBREVIATIONS = frozenset("".join((_TITLES, _WORKS, _PLACES, _RUNNING_TEXT, _DATES)).split())
# Abbreviations only when written with a capital: their lower-case twins are words or units.
_WITH_CAPITAL = """
    Ms Jr Sr Rev Hon Gen Col Capt Cpt Cap Lt Sgt Maj Cmdr Gov Sen Rep Reps Pres Fr Pte Min Mass Pa Va Ill
    Wash Calif Conn Fla Tex Mich Minn Penn Tenn Ariz Colo Md As Bs Sec PS PD Apt Ste Bldg Ln Sq Mon Wed Sat
    Atty Assoc Treas"""
_CAPITALISED = frozenset(_WITH_CAPITAL.split())
# Words that are months after a figure ("3 mar."), and words of the language elsewhere ("junto al mar.").
_MONTHS_AFTER_FIGURE = frozenset(("mar", "may", "ago", "set"))
# "No." is the whole of many a sentence; a number only before a Roman numeral or a code.
_NUMBER_WORDS = frozenset(["no"])
# After "..." these prove no new sentence: "I" is always a capital, and a conjunction takes up a hesitation.
_AFTER_ELLIPSIS = re.compile(r"(?:I|And|But|Or|Y|O|Ni|Pero|Sino)(?!\w)")

_OPENING = "¿¡«“‘‹„\"'([`"
_EMPHASIS = frozenset("*_~")
_GLUE_BEFORE = "([{«“‘‹„\"'¿¡*_~`<–—-"

# The look-behind makes a run of stops one match: without it, a run that nothing follows is read again from
# each of its stops, which is quadratic.
_STOP = re.compile(r"([.!?](?<![.!?]{2})[.!?]*+)\s++(?=[^\s\da-z])")
_DOUBLED_CAPITAL = re.compile(r"(?!II|XX)([A-ZÁÉÍÓÚÑ])\1\Z")  # not Felipe II, nor the twentieth century
_LETTERS = r"(?:[A-ZÁÉÍÓÚÑ][^\W\d_]|[^\W\d_][A-ZÁÉÍÓÚÑ]?)"
_DOTTED_LETTERS = re.compile(rf"(?:{_LETTERS}\.)+{_LETTERS}\Z")
_ALTERNATIVE = re.compile(r"([^\W\d_]{2,6})\.?/([^\W\d_]{2,6})\Z")
_ENUMERATOR = re.compile(r"(?:[0-9]{1,3}|[IVXLC]{1,6})\Z")
_CODE_NUMBER = re.compile(r"(?:[IVXLCDM]++|[A-Z]-?\d++)(?!\w)")

# Written as one set of characters and then what each must be followed by: `re` looks for such a set several
# times faster than for alternatives.
_MARK = re.compile(
    r"""[\\`<*_~$:"'’()\[\]{}«»“”‘‹›](?:"""
    r"""(?<=\\)[!-/:-@\[-`{-~]|(?<=`)`*+|(?<=<)(?=[A-Za-z/!])|(?<=\*)\**+|(?<=_)_*+|(?<=~)~|(?<=\$)\$*+"""
    r"""|(?<=:)//[^\s<>"'`()\[\]{}«»“”*]*+|(?<!\w')(?<=')|(?<=['’])(?!\w)|(?<=["()\[\]{}«»“”‘‹›]))"""
)
_BACKTICKS = re.compile(r"`+")
_TAG = re.compile(r"""<(/?)([A-Za-z][\w.:-]*+)(?:[^<>"'{}]++|"[^"]*+"|'[^']*+'|\{[^{}]*+\}|["'{}])*+>""")
_SYMMETRIC = frozenset("*_~$\"'")
_CLOSING = {")": "(", "]": "[", "}": "{", "»": "«", "”": "“", "’": "‘", "›": "‹"}
_OPENING_BRACKETS = frozenset(_CLOSING.values())


def split_spans(text: str) -> list[tuple[int, int]]:
    """Return the units of a Markdown text as `(start, end)` pairs, to be used as `text[start:end]`.

    The pairs are in order and never overlap; no unit is empty or has white space at either end, and there
    is nothing but white space before, between and after them. An empty text, or one of white space only,
    has none. Never raises on a `str`, and takes time in proportion to its length.

    >>> split_spans("# Uno\\n\\nVino el Sr. Gil. Salió.")
    [(0, 5), (7, 23), (24, 30)]
    """
    spans: list[tuple[int, int]] = []
    for start, end, prose in markdown_blocks(text):
        first, last = start, end
        while first < last and text[first].isspace():
            first += 1
        while first < last and text[last - 1].isspace():
            last -= 1
        if first == last:
            continue  # what is blank to Python, such as a line of no-break spaces, is not so to Markdown
        if prose:
            for stop_end, following in _cuts(text[start:end]):
                spans.append((first, start + stop_end))
                first = start + following
        spans.append((first, last))
    return spans


def split_sentences(text: str) -> list[str]:
    """Return the units of a Markdown text, in order: sentences, and blocks that are not to be cut.

    >>> split_sentences("Pesa 2 kg, p. ej. Vale. ¿Y esto?\\n- Un. Punto")
    ['Pesa 2 kg, p. ej. Vale.', '¿Y esto?', '- Un. Punto']
    """
    return [text[start:end] for start, end in split_spans(text)]


def _cuts(prose: str) -> list[tuple[int, int]]:
    """Return where each sentence but the last ends, and where the one after it begins."""
    stops = [
        match
        for match in _STOP.finditer(prose)
        if _opens_sentence(prose, match.end())
        and not _is_abbreviation(prose, match.start(), match.end(1))
        and not _is_hesitation(prose, match[1], match.end())
    ]
    if not stops:
        return []
    kept = []
    enclosed = _Enclosures(prose).ranges()
    nearest = 0
    for match in stops:
        stop = match.start()
        while nearest < len(enclosed) and enclosed[nearest][1] <= stop:
            nearest += 1
        if nearest == len(enclosed) or enclosed[nearest][0] > stop:
            kept.append((match.end(1), match.end()))
    return kept


def _opens_sentence(prose: str, at: int) -> bool:
    """Tell if a capital or an opening mark stands at `at`, marks of emphasis aside."""
    while prose[at : at + 1] in _EMPHASIS:
        at += 1
    char = prose[at : at + 1]
    if char.isupper() or char.istitle():
        return True
    if not char or char not in _OPENING:
        return False
    inside = prose[at + 1 : at + 2]
    # "[1]" and "(2)" point to a note or a source, which belongs to the sentence before it.
    return (
        bool(inside) and not inside.isspace() and not (char in "([" and (inside.isdigit() or inside == "^"))
    )


def _is_hesitation(prose: str, stops: str, at: int) -> bool:
    return stops.startswith("..") and _AFTER_ELLIPSIS.match(prose, at) is not None


# -- abbreviations --------------------------------------------------------------------------------------


def _is_abbreviation(prose: str, stop: int, stop_end: int) -> bool:
    if stop_end - stop > 1 or prose[stop] != ".":
        return False
    before = prose[max(0, stop - LOOK_BACK) : stop]
    if not before or before[-1].isspace():
        return False
    *earlier, token = before.split()
    if len(token) == LOOK_BACK:
        return False
    word = token.lstrip(_GLUE_BEFORE)
    if (both := _ALTERNATIVE.match(word)) and _is_abbreviated_word(both[1]):
        word = both[2]  # "Sr./Sra. Gil", but not "km/h. Luego"
    return _is_abbreviated_word(word) or _depends_on_context(word, earlier, prose, stop)


def _is_abbreviated_word(word: str) -> bool:
    if len(word) == 1:
        return word.isalpha()  # an initial, or an option that is told from one by nothing
    return (
        word.lower() in _ABBREVIATIONS
        or word in _CAPITALISED
        or (_DOUBLED_CAPITAL.match(word) is not None)
        or (_DOTTED_LETTERS.match(word) is not None)
    )


def _depends_on_context(word: str, earlier: list[str], prose: str, stop: int) -> bool:
    lower = word.lower()
    if lower in _MONTHS_AFTER_FIGURE:
        # "3 mar." and "3 de mar."
        figure = earlier[-2:-1] if earlier[-1:] == ["de"] else earlier[-1:]
        return bool(figure) and figure[0][-1].isdigit()
    if lower in _NUMBER_WORDS:
        after = stop + 1
        while prose[after : after + 1].isspace():
            after += 1
        return _CODE_NUMBER.match(prose, after) is not None
    if _ENUMERATOR.match(word):
        return _begins_clause(prose, stop - len(word), earlier)
    return False


def _begins_clause(prose: str, at: int, earlier: list[str]) -> bool:
    """Tell if a figure at `at` numbers what follows ("1. Uno. 2. Dos") instead of ending a sentence."""
    return at == 0 or prose[at - 1] in "\r\n" or (bool(earlier) and earlier[-1][-1] in ".!?:;")


# -- what encloses a stop -------------------------------------------------------------------------------


class _Enclosures:
    """The stretches of a paragraph that are never cut: code, tags, links, math, quotes, brackets, emphasis.

    One pass over the marks. Code and tags are taken whole, as in CommonMark; any other mark pairs with the
    last open one of its kind, whatever stands between, and a mark without a partner encloses nothing.
    """

    def __init__(self, prose: str) -> None:
        self.prose = prose
        self.found: list[tuple[int, int]] = []
        self.open: dict[str, list[int]] = {}
        self.runs: dict[int, list[int]] | None = None
        self.comments_end = len(prose)

    def ranges(self) -> list[tuple[int, int]]:
        """Return the stretches as `(start, end)`, in order, those that overlap joined into one."""
        at = 0
        while match := _MARK.search(self.prose, at):
            at = self._take(match[0], match.start(), match.end())
        joined: list[tuple[int, int]] = []
        for start, end in sorted(self.found):
            if joined and start < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return joined

    def _take(self, mark: str, start: int, end: int) -> int:
        """Note the mark at `start`; return where to look for the next one."""
        first = mark[0]
        if first == "`":
            return self._take_code(start, end)
        if first == "<":
            return self._take_tag(start)
        if first in _CLOSING:
            self._close(_CLOSING[first], end)
        elif first in _OPENING_BRACKETS:
            self.open.setdefault(first, []).append(start)
        elif first in _SYMMETRIC:
            self._take_symmetric(mark, start, end)
        return end

    def _close(self, kind: str, end: int) -> None:
        if pending := self.open.get(kind):
            self.found.append((pending.pop(), end))

    def _take_code(self, start: int, end: int) -> int:
        if self.runs is None:
            self.runs = {}
            for run in _BACKTICKS.finditer(self.prose, start):
                self.runs.setdefault(run.end() - run.start(), []).append(run.start())
        same = self.runs.get(end - start, [])
        following = bisect_left(same, end)
        if following == len(same):
            return end
        closed = same[following] + end - start
        self.found.append((start, closed))
        return closed

    def _take_tag(self, start: int) -> int:
        if self.prose.startswith("<!--", start):
            return self._take_comment(start)
        tag = _TAG.match(self.prose, start, start + MAX_TAG)
        if tag is None:
            return start + 1
        self.found.append(tag.span())
        kind = "<" + tag[2]
        if tag[1]:
            self._close(kind, tag.end())
        elif not tag[0].endswith("/>"):
            self.open.setdefault(kind, []).append(start)
        return tag.end()

    def _take_comment(self, start: int) -> int:
        # A search that failed once fails from everywhere after; not to repeat it keeps the pass linear.
        end = self.prose.find("-->", start + 4) if start < self.comments_end else -1
        if end < 0:
            self.comments_end = min(start, self.comments_end)
            return start + 4
        self.found.append((start, end + 3))
        return end + 3

    def _take_symmetric(self, mark: str, start: int, end: int) -> None:
        """Pair a mark that opens and closes alike, after what stands at either side of it."""
        before = self.prose[start - 1] if start else " "
        after = self.prose[end : end + 1] or " "
        can_open, can_close = not after.isspace(), not before.isspace()
        if mark[0] in "\"'":
            can_open = can_open and (before.isspace() or before in _GLUE_BEFORE)
            can_close = can_close and not can_open
        elif mark[0] == "_":
            can_open, can_close = can_open and not before.isalnum(), can_close and not after.isalnum()
        elif mark[0] == "$":
            if len(mark) > MAX_MATH_MARK:
                return
            can_close = can_close and not after.isdigit()  # "de 5$ a 10$" holds no math, "$5" neither
        if can_close and self.open.get(mark):
            self._close(mark, end)
        elif can_open:
            self.open[mark] = [start]
