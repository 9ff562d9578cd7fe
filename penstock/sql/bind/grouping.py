"""GROUP BY and aggregates: expressions before, the `Aggregate`, and what is computed of its columns after."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from penstock.plan import Aggregate, Call, Distinct, Function, Join, Named, Node, On, Select
from penstock.sql.bind.calls import Argument, argument_of, is_call
from penstock.sql.bind.items import Item
from penstock.sql.bind.refusals import NOT_YET, check_expression, refuse_clauses
from penstock.sql.bind.scope import Environment, Scope
from penstock.sql.columns import columns_of, exchanges, parameters
from penstock.sql.expression import enclosed, flat, plain_column, same_words
from penstock.sql.names import Names, folded, quoted
from penstock.sql.tree import begin_of, span_of, walk

__all__ = ["Grouping", "is_grouped"]


def is_grouped(select: exp.Select, items: list[Item]) -> bool:
    """Whether the query makes groups: it says so, or has an aggregate."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(item.tree is not None and _has_call(item.tree) for item in items)


def _has_call(tree: exp.Expression) -> bool:
    return any(is_call(it) for it in walk(tree))


class Grouping:
    """Collects what a grouped query needs of its rows, and writes what it makes of its groups."""

    def __init__(self, select: exp.Select, items: list[Item], env: Environment, scope: Scope) -> None:
        self._env = env
        self._scope = scope
        self._items = items
        hidden = parameters(select)
        self._names = Names((*hidden, *(it.inner for source in scope.sources for it in source.fields)))
        self._before: dict[str, str] = {}
        self._keys: dict[tuple[str, ...], str] = {}
        self._calls: dict[tuple[Function, str | None, bool], Call] = {}
        self._aliases: dict[str, str] = {}
        for tree in self._key_trees(select):
            self._add_key(tree)
        self._call_names = Names((*hidden, *self._before.values()))

    def _key_trees(self, select: exp.Select) -> list[exp.Expression | Item]:
        group = select.args.get("group")
        if group is None:
            return []
        for name in ("grouping_sets", "cube", "rollup", "totals"):
            if group.args.get(name):
                raise self._several(name, group)
        refuse_clauses(self._env.text, group, ("expressions", "all"))
        if group.args.get("all"):
            return [it for it in self._items if it.tree is None or not _has_call(it.tree)]
        return [self._key_tree(it) for it in group.expressions]

    def _key_tree(self, tree: exp.Expression) -> exp.Expression | Item:
        if isinstance(tree, exp.Cube | exp.Rollup | exp.GroupingSets):
            raise self._several("grouping_sets" if isinstance(tree, exp.GroupingSets) else tree.key, tree)
        if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit():
            return self._item_at(int(tree.name), tree)
        if isinstance(tree, exp.Column) and not tree.table and not self._scope.has(tree.name):
            for item in self._items:
                if item.has_alias and item.name is not None and folded(item.name) == folded(tree.name):
                    return self._without_calls(item, tree)
        return tree

    def _several(self, what: str, tree: exp.Expression) -> Exception:
        return self._env.text.unsupported(
            f"GROUP BY {what.replace('_', ' ').upper()} {NOT_YET}",
            begin_of(tree),
            "Make one view for each set of columns, and put them together with UNION ALL.",
        )

    def _item_at(self, number: int, tree: exp.Expression) -> Item:
        if not 1 <= number <= len(self._items):
            raise self._env.text.bad(
                f"GROUP BY {number}, but there are {len(self._items)} columns",
                span_of(tree)[0],
                "Give the place of a column of SELECT, from 1.",
            )
        return self._without_calls(self._items[number - 1], tree)

    def _without_calls(self, item: Item, tree: exp.Expression) -> Item:
        if item.tree is not None and _has_call(item.tree):
            raise self._env.text.bad(
                "this column has an aggregate in it, and cannot be grouped by",
                span_of(tree)[0],
                "Group by columns that are known before the groups are made.",
            )
        return item

    def _add_key(self, tree: exp.Expression | Item) -> None:
        if isinstance(tree, Item):
            if tree.tree is None:
                assert tree.field is not None
                sql = quoted(tree.field.inner)
                self._keys.setdefault(same_words(sql), self._column(sql, "key"))
                return
            tree = tree.tree
        check_expression(self._env.text, tree)
        sql = self._scope.written(tree)
        self._keys.setdefault(same_words(sql), self._column(sql, "key"))

    def _column(self, sql: str, wanted: str) -> str:
        """The name of a column computed before the groups are made; equal expressions are one."""
        if sql not in self._before:
            self._before[sql] = plain_column(sql) or self._names.new(wanted)
        return self._before[sql]

    def written(self, item: Item) -> str:
        """A column of SELECT, over the columns of the groups."""
        if item.tree is None:
            assert item.field is not None
            key = self._keys.get(same_words(quoted(item.field.inner)))
            if key is None:
                raise self._not_grouped(item.name or "*", None)
            return quoted(key)
        text = self._written(item.tree)
        if item.has_alias and item.name is not None:
            self._aliases.setdefault(folded(item.name), text)
        return text

    def conditions(self, tree: exp.Expression) -> list[str]:
        """HAVING, part by part. A name that is no grouped column may be one of SELECT's."""
        return [self._written(it, aliases_first=True) for it in flat(tree)]

    def _written(self, tree: exp.Expression, aliases_first: bool = False) -> str:
        check_expression(self._env.text, tree, aggregates=True)

        def found(column: exp.Column) -> tuple[str, int]:
            alias = self._aliases.get(folded(column.name)) if not column.table else None
            known = self._scope.has(column.name) or bool(column.table)
            if known:
                sql, used = self._scope.resolve(column)
                key = self._keys.get(same_words(sql))
                if key is not None:
                    return quoted(key), used
            if alias is not None and (aliases_first or not known):
                return enclosed(alias), 1
            if not known:
                self._scope.resolve(column)
            raise self._not_grouped(column.sql(), column)

        return self._env.text.spelled(*span_of(tree), exchanges(tree, found, self._instead))

    def _not_grouped(self, name: str, tree: exp.Expression | None) -> Exception:
        at = 0 if tree is None else span_of(tree)[0]
        return self._env.text.bad(
            f"{name} is neither grouped by nor inside an aggregate",
            at,
            "Put it into GROUP BY, or take its MIN or MAX.",
        )

    def _instead(self, tree: exp.Expression) -> str | None:
        if is_call(tree):
            return self._call(tree)
        if (
            isinstance(tree, exp.Literal | exp.Identifier | exp.Alias)
            or not self._keys
            or "begin" not in tree.meta
        ):
            return None
        if _has_call(tree) or not self._is_known(tree):
            return None
        key = self._keys.get(same_words(self._scope.written(tree)))
        return None if key is None else quoted(key)

    def _is_known(self, tree: exp.Expression) -> bool:
        """Whether all it reads are columns of FROM; else it cannot be what is grouped by."""
        return all(it.table or self._scope.has(it.name) for it in columns_of(tree))

    def _call(self, tree: exp.Expression) -> str:
        argument = argument_of(tree, self._env.text, self._scope)
        column = None if argument.sql is None else self._column(argument.sql, "arg")
        told = (argument.function, column, argument.distinct)
        if told not in self._calls:
            name = self._call_names.new(_call_name(argument, column))
            self._calls[told] = Call(name, argument.function, column)
        return quoted(self._calls[told].name)

    def node(self, below: Node) -> Node:
        """The groups of these rows.

        All in the order of their names: views that ask for the same in another order share their state.
        """
        keys = tuple(sorted(set(self._keys.values())))
        rows = below
        before = sorted((name, sql) for sql, name in self._before.items())
        if before:
            rows = Select(below, tuple(Named(name, sql) for name, sql in before))
        if not self._calls:
            if keys:
                return Distinct(Select(rows, tuple(Named(it, quoted(it)) for it in keys)))
            return Aggregate(rows, (), (Call("count", Function.COUNT),))
        plain = _by_name(call for (_, _, distinct), call in self._calls.items() if not distinct)
        branches = [Aggregate(rows, keys, plain)] if plain else []
        for column in dict.fromkeys(column for _, column, distinct in self._calls if distinct):
            calls = _by_name(c for (_, of, distinct), c in self._calls.items() if distinct and of == column)
            each = dict.fromkeys((*keys, column))
            once = Distinct(Select(rows, tuple(Named(it, quoted(it)) for it in each if it is not None)))
            branches.append(Aggregate(once, keys, calls))
        return self._together(branches, keys)

    def _together(self, branches: list[Aggregate], keys: tuple[str, ...]) -> Node:
        """All have the same groups; the keys of the first stay."""
        node: Node = branches[0]
        for branch in branches[1:]:
            other = {key: self._call_names.new(key) for key in keys}
            columns = [Named(new, quoted(old)) for old, new in other.items()]
            columns += [Named(call.name, quoted(call.name)) for call in branch.calls]
            on = tuple(On(old, new, null_safe=True) for old, new in other.items())
            node = Join(node, Select(branch, tuple(columns)), on)
        return node


def _by_name(calls: Iterable[Call]) -> tuple[Call, ...]:
    return tuple(sorted(calls, key=lambda it: it.name))


def _call_name(argument: Argument, column: str | None) -> str:
    name = str(argument.function.value).removesuffix("_column")
    return "_".join(filter(None, (name, "distinct" if argument.distinct else None, column)))
