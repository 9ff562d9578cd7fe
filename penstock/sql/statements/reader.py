"""Reads a statement word by word."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BadSql
from penstock.sql.text import SqlText

__all__ = ["Reader", "Word"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, sign, string or number. ``text`` of a quoted one is what stands between the quotes."""

    text: str
    kind: str
    begin: int
    end: int

    @property
    def upper(self) -> str:
        """In capitals, or nothing where it is quoted: quoted words are never keywords."""
        return "" if self.kind in ("name", "string") else self.text.upper()


class Reader:
    """One statement: the words from ``begin`` to ``end`` of a text."""

    def __init__(self, text: SqlText, begin: int, end: int) -> None:
        self.text = text
        self.end = end
        self.words = list(_words(text, begin, end))
        self._at = 0

    @property
    def word(self) -> Word | None:
        """The next word; None at the end."""
        return self.words[self._at] if self._at < len(self.words) else None

    @property
    def place(self) -> int:
        """Where the next word begins, or the statement ends."""
        word = self.word
        return self.end if word is None else word.begin

    def skip(self) -> Word:
        """The next word, which is behind us then."""
        word = self.word
        if word is None:
            raise self.bad("the statement ends too soon", "Write it to its end.")
        self._at += 1
        return word

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        coming = self.words[self._at : self._at + len(words)]
        return len(coming) == len(words) and all(it.upper == w for it, w in zip(coming, words, strict=True))

    def take(self, *words: str) -> bool:
        """Goes past these words if they come next."""
        found = self.sees(*words)
        self._at += len(words) if found else 0
        return found

    def expect(self, *words: str) -> None:
        """Goes past these words, which must come next."""
        if not self.take(*words):
            wanted = " ".join(words)
            raise self.bad(f"{wanted} is expected here, not {self._next()}", f"Write {wanted}.")

    def name(self, of: str) -> str:
        """A name, quoted or not."""
        word = self.word
        if word is None or word.kind not in ("name", "word"):
            raise self.bad(
                f"the name of {of} is expected here, not {self._next()}", "Put odd names in `backquotes`."
            )
        self._at += 1
        if self.sees("."):
            raise self.bad("there are no databases in a name here", f"Write the name of {of} alone.")
        return word.text

    def names(self, of: str) -> tuple[str, ...]:
        """Names in brackets."""
        self.expect("(")
        found = [self.name(of)]
        while self.take(","):
            found.append(self.name(of))
        self.expect(")")
        return tuple(found)

    def rest(self) -> tuple[int, int]:
        """From here to the end of the statement; all of it is behind us then."""
        begin = self.place
        self._at = len(self.words)
        return begin, self.end

    def until(self, *stops: str) -> tuple[int, int]:
        """From here to one of these words outside of brackets, or to the end."""
        begin, depth = self.place, 0
        end = begin
        while (word := self.word) is not None and not (depth == 0 and word.upper in stops):
            depth += (word.upper in ("(", "[")) - (word.upper in (")", "]"))
            end = word.end
            self._at += 1
        return begin, end

    def done(self) -> None:
        """Nothing may follow."""
        if self.word is not None:
            raise self.bad(f"the statement should end before {self._next()}", "Part statements by ';'.")

    def bad(self, what: str, hint: str) -> BadSql:
        """Something is wrong at the next word."""
        return self.text.bad(what, self.place, hint)

    def _next(self) -> str:
        word = self.word
        return "the end" if word is None else repr(self.text.sql[word.begin : word.end])


def _words(text: SqlText, begin: int, end: int) -> list[Word]:
    """Tokens of two words (PRIMARY KEY) come apart, and several tokens made of one word (1L) are one."""
    found: list[Word] = []
    last = -1
    for token in text.between(begin, end):
        if token.start <= last:
            continue
        last = token.end
        raw = text.sql[token.start : token.end + 1]
        kind = token.token_type.name
        if kind.endswith("STRING"):
            found.append(Word(token.text, "string", token.start, token.end + 1))
        elif raw[0] == "`":
            found.append(Word(token.text, "name", token.start, token.end + 1))
        elif raw[0].isalpha() or raw[0] == "_":
            found += [Word(it, "word", token.start, token.end + 1) for it in raw.split()]
        else:
            found.append(Word(raw, "number" if kind == "NUMBER" else "sign", token.start, token.end + 1))
    return found
