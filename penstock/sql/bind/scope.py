"""What names mean inside one SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import Token, TokenType, exp

from penstock.plan import Named, Node, Select
from penstock.sql.catalog import Catalog
from penstock.sql.columns import bare, exchanges, function_name, parts_of
from penstock.sql.expression import enclosed
from penstock.sql.facts import Facts
from penstock.sql.names import Names, candidates, folded, quoted
from penstock.sql.text import SqlText
from penstock.sql.tree import span_of, walk

__all__ = ["Bound", "Environment", "Field", "Scope", "Source"]


@dataclass(frozen=True, slots=True)
class Field:
    """A column that a query shows: the name it has for SQL (None: it was given none) and in the plan."""

    name: str | None
    inner: str


@dataclass(frozen=True, slots=True)
class Bound:
    """A query or a table whose names are resolved."""

    node: Node
    fields: tuple[Field, ...]

    def named(self, names: list[str], alias: str, text: SqlText, at: int) -> Bound:
        """With other names for its columns, if there are any."""
        if not names:
            return self
        if len(names) != len(self.fields):
            raise text.bad(
                f"{alias!r} has {len(self.fields)} columns, and {len(names)} names are given",
                at,
                "Give as many names as there are columns.",
            )
        fields = (Field(new, it.inner) for new, it in zip(names, self.fields, strict=True))
        return Bound(self.node, tuple(fields))


@dataclass(frozen=True)
class Environment:
    """What a query is bound in."""

    text: SqlText
    catalog: Catalog
    facts: Facts
    view: str | None = None
    ctes: Mapping[str, Bound] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Source:
    """One table of a FROM clause under its alias."""

    alias: str
    fields: tuple[Field, ...]

    def find(self, name: str) -> list[Field]:
        """Its columns of that name: more than one where a derived table has two."""
        return [it for it in self.fields if it.name is not None and folded(it.name) == folded(name)]


@dataclass
class Scope:
    """The tables of a FROM clause, with plan names no two of which are alike.

    ``shown`` is what `*` stands for: with USING, a shared column once, and first.
    """

    text: SqlText
    names: Names = field(default_factory=Names)
    sources: list[Source] = field(default_factory=list)
    shown: list[Field] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)

    def add(self, alias: str, bound: Bound, at: int) -> Node:
        """Takes a table in, and gives its rows under plan names that are free here."""
        if any(folded(it.alias) == folded(alias) for it in self.sources):
            raise self.text.bad(
                f"two tables are called {alias!r}", at, f"Give one of them another name: {alias} AS other."
            )
        inner = {it.inner: self.names.new(it.inner) for it in bound.fields}
        source = Source(alias, tuple(Field(it.name, inner[it.inner]) for it in bound.fields))
        self.sources.append(source)
        self.shown.extend(source.fields)
        if all(old == new for old, new in inner.items()):
            return bound.node
        return Select(bound.node, tuple(Named(new, quoted(old)) for old, new in inner.items()))

    def resolve(self, column: exp.Column) -> tuple[str, int]:
        """The text for a column, and how many dotted parts of it that is; a struct's fields follow."""
        parts = parts_of(column)
        at = parts[0].meta["start"]
        if len(parts) > 1:
            for source in self.sources:
                if folded(source.alias) == folded(parts[0].name):
                    found = source.find(parts[1].name)
                    if found:
                        return quoted(self._one(found, f"{source.alias}.{parts[1].name}", at)), 2
        name = parts[0].name
        shown = [it for it in self.shown if it.name is not None and folded(it.name) == folded(name)]
        if shown:
            return quoted(self._one(shown, name, at)), 1
        if folded(name) in self.aliases:
            return enclosed(self.aliases[folded(name)]), 1
        raise self._unknown(parts, at)

    def _one(self, found: list[Field], name: str, at: int) -> str:
        if len(found) > 1:
            tables = [s.alias for s in self.sources for it in s.fields if it in found]
            raise self.text.bad(
                f"{name!r} could be a column of {' or of '.join(tables)}",
                at,
                f"Say which: {tables[0]}.{name}." if len(set(tables)) > 1 else "Name one of the two anew.",
            )
        return found[0].inner

    def _unknown(self, parts: list[exp.Identifier], at: int) -> Exception:
        name = parts[0].name
        if len(parts) > 1:
            for source in self.sources:
                if folded(source.alias) == folded(name):
                    there = [it.name for it in source.fields if it.name is not None]
                    told = f"there is no column {parts[1].name!r} in {source.alias!r}"
                    return self.text.unknown(told, at, candidates(parts[1].name, there))
        known = [it.name for it in self.shown if it.name is not None]
        if len(parts) > 1:
            known += [it.alias for it in self.sources]
        kind = "table or column" if len(parts) > 1 else "column"
        return self.text.unknown(f"there is no {kind} {name!r} here", at, candidates(name, known))

    def has(self, name: str) -> bool:
        """Whether a column of FROM has that name."""
        return any(it.name is not None and folded(it.name) == folded(name) for it in self.shown)

    def written(self, tree: exp.Expression) -> str:
        """An expression over this scope, as the plan writes it."""
        self.check(tree)
        return self.text.spelled(*span_of(tree), exchanges(tree, self.resolve))

    def check(self, tree: exp.Expression) -> None:
        """Refuse what cannot be carried over with other names."""
        self._check_seen(tree)
        for call in tree.find_all(exp.Anonymous):
            if function_name(call) != "arrays_zip":
                continue
            for argument in call.expressions:
                column = bare(argument)
                if column is not None and self.resolve(column)[0] != quoted(column.name):
                    raise self.text.unsupported(
                        "arrays_zip names its fields by its columns, and this one has another name inside",
                        span_of(argument)[0],
                        "Rename the column in a derived table first.",
                    )

    def _check_seen(self, tree: exp.Expression) -> None:
        """A column that sqlglot overlooked would keep its name, which may be another's inside the plan."""
        seen = {it.meta.get("start") for it in walk(tree) if isinstance(it, exp.Identifier)}
        words = {folded(it.name) for it in walk(tree) if isinstance(it, exp.Var)}
        unseen = [it for it in _name_tokens(self.text, tree) if it.start not in seen]
        unseen = [it for it in unseen if folded(it.text) not in words]
        if not unseen:
            return
        known = {folded(it.name) for it in self.shown if it.name} | {folded(it.alias) for it in self.sources}
        for token in unseen:
            if folded(token.text) in known:
                raise self.text.unsupported(
                    f"it is not certain what {token.text!r} means in this expression",
                    token.start,
                    "Compute this expression in a derived table, or write it in another way.",
                )


def _name_tokens(text: SqlText, tree: exp.Expression) -> list[Token]:
    """The words that could be columns: neither after a dot nor before a bracket or an arrow."""
    tokens = text.between(*span_of(tree))
    befores = [None, *(it.token_type for it in tokens)]
    afters = [*(it.token_type for it in tokens[1:]), None]
    return [
        token
        for before, token, after in zip(befores, tokens, afters, strict=False)
        if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        and before != TokenType.DOT
        and after not in (TokenType.L_PAREN, TokenType.FARROW)
    ]
