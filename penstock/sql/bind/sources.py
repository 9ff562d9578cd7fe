"""FROM and JOIN → all pairs of rows, and the conditions on them.

Joins come out as products with conditions above; the rules find the equalities and push the rest down. So it
does not matter whether a condition was written in ON, in USING or in WHERE.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.plan import Join, Node
from penstock.sql.bind.refusals import NOT_YET, check_expression, refuse_clauses
from penstock.sql.bind.scope import Bound, Environment, Field, Scope, Source
from penstock.sql.expression import flat
from penstock.sql.names import candidates, folded, quoted
from penstock.sql.tree import begin_of, span_of

__all__ = ["bind_from", "condition_texts"]

BindQuery = Callable[[exp.Expression, Environment], Bound]


def bind_from(select: exp.Select, env: Environment, scope: Scope, bind: BindQuery) -> tuple[Node, list[str]]:
    """All pairs of rows of the tables, and the conditions of their joins."""
    begin = select.args.get("from_") or select.args.get("from")
    if begin is None:
        raise env.text.unsupported(
            f"a query without FROM {NOT_YET}", span_of(select)[0], "Put constants beside columns of a table."
        )
    node, conditions = _bind_table(begin.this, env, scope, bind)
    for join in select.args.get("joins") or []:
        node, more = _bind_join(node, join, env, scope, bind)
        conditions += more
    return node, conditions


def condition_texts(tree: exp.Expression, env: Environment, scope: Scope) -> list[str]:
    """The conditions that AND holds together."""
    check_expression(env.text, tree)
    return [scope.written(it) for it in flat(tree)]


def _bind_table(
    tree: exp.Expression, env: Environment, scope: Scope, bind: BindQuery
) -> tuple[Node, list[str]]:
    match tree:
        case exp.Table() if isinstance(tree.this, exp.Identifier):
            refuse_clauses(env.text, tree, ("this", "alias", "joins", "db", "catalog"))
            bound, alias = _named(tree, env), tree.alias or tree.name
        case exp.Subquery() if isinstance(tree.this, exp.Table | exp.Subquery) and not tree.alias:
            refuse_clauses(env.text, tree, ("this", "joins"))
            return _joined(*_bind_table(tree.this, env, scope, bind), tree, env, scope, bind)
        case exp.Subquery():
            bound, alias = bind(tree.this, env), tree.alias or f"derived {len(scope.sources) + 1}"
            refuse_clauses(env.text, tree, ("this", "alias", "joins"))
        case exp.Values():
            raise env.text.unsupported(
                f"VALUES in FROM {NOT_YET}", begin_of(tree), "Insert the rows into a table, and read that."
            )
        case _:
            raise env.text.unsupported(
                f"{tree.key.upper()} in FROM {NOT_YET}", begin_of(tree), "Read a table, a view or a query."
            )
    bound = _renamed(tree, bound, env)
    return _joined(scope.add(alias, bound, begin_of(tree)), [], tree, env, scope, bind)


def _joined(
    node: Node, conditions: list[str], tree: exp.Expression, env: Environment, scope: Scope, bind: BindQuery
) -> tuple[Node, list[str]]:
    for join in tree.args.get("joins") or []:
        node, more = _bind_join(node, join, env, scope, bind)
        conditions = conditions + more
    return node, conditions


def _named(tree: exp.Table, env: Environment) -> Bound:
    at = begin_of(tree)
    if tree.args.get("db"):
        raise env.text.unknown(
            f"there is no database {tree.args['db'].name!r}",
            at,
            f"Write the table's name alone: {tree.name}.",
        )
    name = tree.name
    if folded(name) in env.ctes:
        return env.ctes[folded(name)]
    if env.view is not None and folded(name) == folded(env.view):
        raise env.text.bad(
            f"the view {name!r} reads itself", at, "A view can read tables and earlier views only."
        )
    relation = env.catalog.relation(name)
    if relation is None:
        known = [*env.catalog.names(), *env.ctes]
        raise env.text.unknown(f"there is no table or view {name!r}", at, candidates(name, known))
    env.facts.add(relation.node, relation.schema)
    env.read.add(name)
    return Bound(relation.node, tuple(Field(it, it) for it in relation.schema.names))


def _renamed(tree: exp.Expression, bound: Bound, env: Environment) -> Bound:
    """`AS t (a, b)` names the columns anew."""
    alias = tree.args.get("alias")
    names = [it.name for it in alias.args.get("columns") or []] if isinstance(alias, exp.TableAlias) else []
    return bound.named(names, str(tree.alias), env.text, begin_of(tree))


def _bind_join(
    left: Node, join: exp.Join, env: Environment, scope: Scope, bind: BindQuery
) -> tuple[Node, list[str]]:
    side, kind, method = (str(join.args.get(it) or "").upper() for it in ("side", "kind", "method"))
    at = begin_of(join.this)
    if side or kind not in ("", "INNER", "CROSS") or method not in ("", "NATURAL"):
        told = " ".join(filter(None, (method, side, kind or "OUTER", "JOIN")))
        raise env.text.unsupported(f"{told} {NOT_YET}", at, "Use an INNER JOIN.")
    refuse_clauses(env.text, join, ("this", "side", "kind", "on", "using", "method"))
    if isinstance(join.this, exp.Lateral):
        raise env.text.unsupported(f"LATERAL {NOT_YET}", at, "Write it as a JOIN.")
    shown, first = list(scope.shown), len(scope.sources)
    right, conditions = _bind_table(join.this, env, scope, bind)
    node = Join(left, right, ())
    mine = scope.sources[first:]
    if method == "NATURAL":
        theirs = {folded(it.name) for source in mine for it in source.fields if it.name is not None}
        shared = [it.name for it in shown if it.name is not None and folded(it.name) in theirs]
    else:
        shared = [it.name for it in join.args.get("using") or []]
    if shared:
        conditions += _use(shared, shown, mine, scope, at)
    on = join.args.get("on")
    if on is not None:
        conditions += condition_texts(on, env, scope)
    return node, conditions


def _use(shared: list[str], shown: list[Field], mine: list[Source], scope: Scope, at: int) -> list[str]:
    """USING: the columns are equal, and stand once, before all others."""
    added = [it for source in mine for it in source.fields]
    pairs = [(_only(name, shown, scope, at), _only(name, added, scope, at)) for name in shared]
    kept = [left for left, _ in pairs]
    gone = {it.inner for pair in pairs for it in pair}
    scope.shown[:] = kept + [it for it in (*shown, *added) if it.inner not in gone]
    return [f"{quoted(left.inner)} = {quoted(right.inner)}" for left, right in pairs]


def _only(name: str, fields: list[Field], scope: Scope, at: int) -> Field:
    found = [it for it in fields if it.name is not None and folded(it.name) == folded(name)]
    if len(found) != 1:
        known = [it.name for it in fields if it.name is not None]
        told = "is on one side only" if not found else "is there more than once"
        raise scope.text.bad(f"the column {name!r} of the join {told}", at, candidates(name, known))
    return found[0]
