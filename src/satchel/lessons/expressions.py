"""Numbers as people write them: decimals, fractions, percentages, roots, logarithms and number words.

`evaluate` reads the value of a setting, which is one expression. `quantities` finds the numbers in the text of an
answer.
"""

import math
import operator
import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from satchel.errors import SettingsError
from satchel.lessons.arithmetic import Number

# Accepted forms of a number, for error messages.
FORMS = "0.25, 1/4, 25%, 2.5e-3, sqrt(2), ln(3), e or pi"
# Largest exponent and largest number of characters of an expression: larger ones would take long to compute.
LARGEST_POWER = 1000
LONGEST = 2000
DEEPEST = 30

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "root": math.sqrt,
    "√": math.sqrt,
    "ln": lambda x: math.log(x) if x else -math.inf,
    "log": lambda x: math.log(x) if x else -math.inf,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}
CONSTANTS = {"e": math.e, "pi": math.pi, "π": math.pi, "inf": math.inf, "infinity": math.inf, "∞": math.inf}
CARDINALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
# Denominators of fractions in words: a third, two thirds, one half.
PARTS = {"half": 2, "halves": 2, "quarter": 4} | {word: place for place, word in enumerate(ORDINALS[2:], start=3)}
PARTS |= {f"{word}s": value for word, value in PARTS.items()}
ARTICLES = ("a", "an")
WORDS = {word: Fraction(value) for value, word in enumerate(CARDINALS)}
WORDS |= {word: Fraction(value) for value, word in enumerate(ORDINALS, start=1)}
WORDS |= {"zeros": Fraction(0), "zeroes": Fraction(0), "ones": Fraction(1)}
SEPARATORS = (",", ";", "|", "and")
# Replacements in a text before it is divided into tokens.
SPELLINGS = (
    ("[−–]", "-"),
    ("[⋅·]", "*"),
    ("²", "^2"),
    (r"\bsquare root of\b", "sqrt"),
    (r"\b(?:minus|negative)\b", "-"),
    (r"\bsigma(?=\s*\()|σ", "sigmoid"),
    (r"\b(sqrt|ln)(?=\d)", r"\1 "),
    # The x of a shape (4x4) and of a factor (4x) is not a name.
    (r"(?<=\d)\s*[x×](?=\s*\d|\W|$)", " ; "),
    (r"\bper cent\b", "percent"),
)

TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:st|nd|rd|th)?(?![\w.]*\w)"
    # A name such as h_4, e'_3, W^Q or x2 is one token, so that its index is not a number.
    r"|(?P<word>[^\W\d_]\w*(?:['’]?_\{?[\w'+-]+\}?|\^\{?[^\W\d]+\}?|['’](?!\w))*(?:['’]\w+)*)"
    r"|(?P<symbol>\S)"
    r")"
)


class Token(NamedTuple):
    """A number, a word or another character of an answer."""

    kind: str
    text: str
    follows_space: bool


class Quantity(NamedTuple):
    """A number in an answer. `total` is the M of `N of M`."""

    value: Number
    total: Number | None = None


def evaluate(text: str) -> Number:
    """Return the value of an expression that fills the whole text; raise ValueError if it is not one."""
    parser = _Parser(text, words=False)
    value = parser.sum()
    if value is None or math.isnan(value) or parser.token is not None:
        raise ValueError(f"{text!r} is not a number")
    return value


def parse_setting(name: str, text: str) -> Number:
    """Return the number given for a setting; raise SettingsError with the accepted forms otherwise."""
    try:
        return evaluate(text)
    except ValueError:
        raise SettingsError(
            f"{name}: found {text[:60]!r}, expected a number", f"a number can be written as {FORMS}"
        ) from None


def quantities(text: str, *, words: bool = True) -> list[Quantity]:
    """Return the numbers in a text, in order; without `words`, only those written with digits.

    `name = 1/2` has the value of its right side; names with an index (h_4), arguments (P(x)) and labels (`sense 0:`)
    are not numbers. `a = b` with equal values is one number.
    """
    return _Parser(text, words=words).quantities()


class _Parser:
    """A recursive descent parser of expressions; methods return None if there is no number."""

    def __init__(self, text: str, *, words: bool = True) -> None:
        self.words = words
        text = text[:LONGEST].casefold()
        for pattern, replacement in SPELLINGS:
            text = re.sub(pattern, replacement, text)
        text = unicodedata.normalize("NFKC", text).replace("\u2044", "/")
        self.tokens = [
            Token(str(match.lastgroup), match[match.lastgroup or 0], match[0][0].isspace())
            for match in TOKEN.finditer(text)
        ]
        self.place = self.depth = 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def take(self, *texts: str) -> bool:
        """Skip the next token if it is one of these texts."""
        token = self.token
        if token is None or token.text not in texts:
            return False
        self.place += 1
        return True

    def attempt(self, part: Callable[[], Number | None]) -> Number | None:
        """Return the value of a part; restore the position if there is none."""
        start = self.place
        value = part()
        if value is None:
            self.place = start
        return value

    def quantities(self) -> list[Quantity]:
        """Return all numbers of the text."""
        values: list[Quantity] = []
        # Index of the first number since the last separator, and whether there are words before the equals sign.
        start, has_words, is_equation = 0, False, False
        while (token := self.token) is not None:
            value = self.attempt(self.sum_without_differences)
            if value is None:
                if self.take("=", "≈", "~"):
                    if has_words:  # the left side is a name such as `sense 0` or `order - 1`
                        del values[start:]
                    is_equation = not has_words and len(values) == start + 1
                else:
                    self.skip_word()
                    is_separator = token.text in SEPARATORS
                    start, has_words = (len(values), False) if is_separator else (start, token.kind == "word")
            elif not self.take(":"):  # the number of a label such as `sense 0:` is not part of the answer
                total = self.attempt(self.total)
                if is_equation and math.isclose(values[-1].value, value, rel_tol=0.02, abs_tol=0.01):
                    values.pop()
                values.append(Quantity(value, total))
                if is_equation:
                    start, has_words = len(values), False
                is_equation = False
        return values

    def skip_word(self) -> None:
        """Skip a token, and the arguments in parentheses after a name: P(cat | the)."""
        token = self.token
        self.place += 1
        is_call = token is not None and token.kind == "word" and self.token and not self.token.follows_space
        if is_call and self.take("("):
            depth = 1
            while depth and self.token is not None:
                depth += {"(": 1, ")": -1}.get(self.token.text, 0)
                self.place += 1

    def total(self) -> Number | None:
        """Return the M of `of M` or `out of M`."""
        self.take("out")
        if not self.take("of"):
            return None
        self.take("the")
        return self.product()

    def sum(self) -> Number | None:
        """Return the value of products joined by + and -."""
        return self.joined("+-")

    def sum_without_differences(self) -> Number | None:
        """Return the value of products joined by +: outside parentheses `0 -1` is two numbers."""
        return self.joined("+")

    def joined(self, operators: str) -> Number | None:
        value = self.product()
        while value is not None and self.token is not None and self.token.text in operators:
            is_plus = self.take("+") or not self.take("-")
            other = self.product()
            if other is None:
                return None
            value = value + other if is_plus else value - other
        return value

    def product(self) -> Number | None:
        value = self.power()
        while value is not None and self.token is not None and self.token.text in "*/":
            start = self.place
            is_times = self.take("*") or not self.take("/")
            other = self.attempt(self.power)
            if other is None:
                self.place = start
                break
            value = _apply(operator.mul if is_times else operator.truediv, value, other)
        if value is not None and self.take("%", "percent"):
            return value / 100
        return value

    def power(self) -> Number | None:
        """Return the value of a power; None if signs and parentheses are nested too deeply."""
        self.depth += 1
        value = self.signed_power() if self.depth <= DEEPEST else None
        self.depth -= 1
        return value

    def signed_power(self) -> Number | None:
        if self.take("-"):
            value = self.power()
            return None if value is None else -value
        self.take("+")
        value = self.primary()
        if value is not None and self.take("^"):
            exponent = self.power()
            if exponent is None:
                return None
            is_integer = isinstance(exponent, Fraction) and exponent.denominator == 1
            if is_integer and abs(float(exponent)) <= LARGEST_POWER:
                return _apply(operator.pow, value, int(exponent))
            return _apply(math.pow, float(value), float(exponent))
        return value

    def primary(self) -> Number | None:
        token = self.token
        if token is None:
            return None
        if token.kind == "number":
            self.place += 1
            # An exponent of a thousand digits is not computed exactly.
            return Fraction(token.text) if len(token.text) < 40 and math.isfinite(float(token.text)) else None
        if token.text in FUNCTIONS:
            self.place += 1
            argument = self.attempt(self.grouped) if self.token and self.token.text == "(" else self.primary()
            return None if argument is None else _apply(FUNCTIONS[token.text], argument)
        if token.text == "(":
            return self.grouped()
        if token.text in CONSTANTS:
            self.place += 1
            # `base e` names a base; e counts as a number in a computation and as the whole text.
            is_alone = self.token is None or self.token.text not in ("^", "/", "*", ")", "+", "-")
            before = self.tokens[self.place - 2].text if self.place > 1 else ""
            if token.text == "e" and is_alone and self.place > 1 and before not in ("^", "/", "*", "(", "+", "-"):
                return None
            return CONSTANTS[token.text]
        return self.number_word()

    def grouped(self) -> Number | None:
        """Return the value of an expression in parentheses; (1, 2) is a list and not an expression."""
        self.take("(")
        value = self.sum()
        return value if self.take(")") else None

    def number_word(self) -> Number | None:
        """Return the value of `three`, `second`, `half`, `a third` or `two thirds`."""
        token = self.token
        following = self.tokens[self.place + 1].text if self.place + 1 < len(self.tokens) else ""
        if token is None or not self.words:
            return None
        if (token.text in WORDS or token.text in ARTICLES) and following in PARTS:
            self.place += 2
            return WORDS.get(token.text, Fraction(1)) / PARTS[following]
        if token.text in ("half", "quarter"):
            self.place += 1
            return Fraction(1, PARTS[token.text])
        if token.text in WORDS:
            self.place += 1
            return WORDS[token.text]
        return None


def _apply(function: Callable[..., Number], *arguments: Number) -> Number:
    """Return the result of an operation; nan if it is not defined, such as 1/0 and sqrt(-1)."""
    try:
        return function(*arguments)
    except (ValueError, ArithmeticError):
        return math.nan
