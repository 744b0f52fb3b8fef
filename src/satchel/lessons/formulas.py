r"""Formulas of the lessons: written in plain characters, shown as plain text or as LaTeX.

The notation is that of the terminal: `a_i`, `a_(ij)`, `x^2`, `10000^(2i/k)`, `sqrt(d_k)`, `q . k` for a dot product,
`2 x 4` for a product or a shape, and ` / ` with spaces for a fraction. `formula_latex("alpha_i = softmax(a_i)")` is
`\alpha_{i} = \operatorname{softmax}(a_{i})`.
"""

import re
from typing import NamedTuple

SYMBOLS = {"alpha": r"\alpha", "sum": r"\sum", "inf": r"\infty", "...": r"\dots", ".": r"\cdot", "x": r"\times"}
FUNCTIONS = {name: rf"\{name}" for name in ("sin", "cos", "log", "ln", "exp", "tanh", "max")}
FUNCTIONS |= {name: rf"\operatorname{{{name}}}" for name in ("softmax", "sigmoid", "diag", "concat", "encode", "ReLU")}
FUNCTIONS["Attention"] = r"\operatorname{Attention}"
# Names of several letters that are one variable.
VARIABLES = {"PE": r"\mathit{PE}", "pos": r"\mathit{pos}"}
KNOWN = {**SYMBOLS, **FUNCTIONS, **VARIABLES}
# Longest index that is several one-letter variables, as in a_(ij).
LONGEST_INDEX = 3
CLOSING = {"(": ")", "{": "}"}

TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<name>[A-Za-z]+)|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?)|(?P<dots>\.\.\.)"
    r"|(?P<operator> ?\.(?= )|[-+=<>|,;:'!/_^(){}\[\]])|(?P<other>.)"
)


class Token(NamedTuple):
    """A part of a formula, and whether white space precedes it."""

    kind: str
    text: str
    after_space: bool


def plain(formula: str) -> str:
    """Return a formula as plain text: parentheses of an index are left out or written as braces."""
    return re.sub(r"_\(([^()]*)\)", lambda index: f"_{index[1]}" if index[1].isalnum() else f"_{{{index[1]}}}", formula)


def formula_latex(formula: str) -> str:
    """Return a formula as LaTeX, for math mode; unknown names are set as text."""
    return _Converter(_tokens(formula)).sequence("")


def is_formula(text: str) -> bool:
    """Return whether a label is a formula: only known names and operators, and an index, a power or a function."""
    tokens = _tokens(text)
    # The index of a variable may be a word, as in d_model.
    names = [
        token.text
        for place, token in enumerate(tokens)
        if token.kind == "name"
        and not (place > 1 and tokens[place - 1].text == "_" and tokens[place - 2].kind == "name")
    ]
    known = (*KNOWN, "sqrt")
    is_known = all(token.kind != "other" for token in tokens) and all(len(name) == 1 or name in known for name in names)
    operators = ("_", "^", "(", "/", "=", "sqrt", *FUNCTIONS)
    has_operator = bool(names) and any(token.text in operators for token in tokens)
    return is_known and has_operator and text.count("(") == text.count(")") and text.count("{") == text.count("}")


def _tokens(formula: str) -> list[Token]:
    tokens, after_space = [], False
    for match in TOKEN.finditer(formula):
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match[0].strip(), after_space or match[0].startswith(" ")))
        after_space = match.lastgroup == "space"
    return tokens


class _Converter:
    """Converts tokens one by one; `place` is the index of the next token."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0

    def sequence(self, closing: str, *, in_index: bool = False) -> str:
        """Return the LaTeX of the tokens up to a closing bracket, with ` / ` as a fraction of its two sides."""
        # Parts since the last operator of lower precedence, and the numerator if there is a fraction bar.
        done, parts, numerator = "", list[str](), ""
        while self.place < len(self.tokens) and self.tokens[self.place].text != closing:
            token = self.tokens[self.place]
            if token.text == "/" and token.after_space:
                self.place += 1
                numerator, parts = _without_parentheses(" ".join(parts)), []
            elif token.text in ("=", "<", ">", ",", ";", ":") or (token.text == "|" and token.after_space):
                self.place += 1
                symbol = r"\mid" if token.text == "|" else token.text
                done += f"{_fraction(numerator, parts)} {symbol} "
                parts, numerator = [], ""
            else:
                parts.append(self.part(in_index))
        self.place += 1
        return done + _fraction(numerator, parts)

    def part(self, in_index: bool) -> str:
        """Return the LaTeX of a token with its primes, indices and powers."""
        token = self.tokens[self.place]
        self.place += 1
        if token.text == "sqrt" and self.starts("("):
            return rf"\sqrt{{{self.group()}}}"
        if token.text == "(":
            self.place -= 1
            base = _parentheses(self.group())
        elif token.text == "[":
            base = f"[{self.sequence(']')}]"
        elif token.text == "x" and not self.is_factor():
            base = "x"
        elif token.text in "{}":
            base = rf"\{token.text}"
        else:
            is_word = token.kind == "name" and len(token.text) > 1
            is_word = is_word and not (in_index and len(token.text) <= LONGEST_INDEX)
            # In math mode a comma is followed by a space, except in braces.
            text = token.text.replace(",", "{,}") if token.kind == "number" else token.text
            base = KNOWN.get(token.text) or (rf"\text{{{text}}}" if is_word else text)
        while self.place < len(self.tokens) and self.tokens[self.place].text in ("'", "_", "^"):
            mark = self.tokens[self.place].text
            self.place += 1
            base += mark if mark == "'" else f"{mark}{{{self.index()}}}"
        if token.text in FUNCTIONS and self.starts("("):
            base += _parentheses(self.group())
        return base

    def index(self) -> str:
        """Return the LaTeX of an index or exponent: one token, or a group in parentheses or braces."""
        if self.starts("(", "{"):
            return self.group(in_index=True)
        if self.place == len(self.tokens):
            return ""
        token = self.tokens[self.place]
        self.place += 1
        return rf"\text{{{token.text}}}" if token.kind == "name" and len(token.text) > 2 else token.text

    def group(self, *, in_index: bool = False) -> str:
        """Return the LaTeX of the tokens between the bracket at this place and its closing bracket."""
        opening = self.tokens[self.place].text
        self.place += 1
        return self.sequence(CLOSING[opening], in_index=in_index).strip()

    def starts(self, *texts: str) -> bool:
        return self.place < len(self.tokens) and self.tokens[self.place].text in texts

    def is_factor(self) -> bool:
        """Return whether the x before this place is a multiplication sign, between two numbers."""
        sides = self.tokens[max(0, self.place - 2) : self.place + 1]
        return len(sides) == 3 and sides[0].kind == sides[2].kind == "number"


def _parentheses(content: str) -> str:
    return rf"\left({content}\right)" if r"\frac" in content else f"({content})"


def _without_parentheses(text: str) -> str:
    return text[1:-1] if re.fullmatch(r"\([^()]*\)", text) else text


def _fraction(numerator: str, parts: list[str]) -> str:
    text = " ".join(parts)
    return rf"\frac{{{numerator}}}{{{_without_parentheses(text)}}}" if numerator else text
