"""What Penstock does, on this machine: `make demo`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from penstock.changes import GroupedSum, Op, Sum, ZSet, collapse

OUT = Console()


def show(title: str, zset: ZSet) -> None:
    """A Z-set as a table."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("weight", justify="right")
    for name in zset.schema.names:
        table.add_column(name)
    for weight, row in zip(zset.weights.tolist(), zset.rows.to_pylist(), strict=True):
        table.add_row(f"[{'green' if weight > 0 else 'red'}]{weight:+d}", *map(str, row.values()))
    OUT.print(table)


def totals(orders: ZSet) -> ZSet:
    """SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer."""
    customers = pc.unique(orders.rows["customer"])
    sums = GroupedSum(pa.float64())
    groups = pc.index_in(orders.rows["customer"], customers).to_numpy().astype("int64")
    sums.update(groups, orders.rows["amount"], orders.weights)
    return ZSet.from_arrow(pa.table({"customer": customers, "total": sums.finalize()}))


def main() -> None:
    OUT.print("\n[bold]A change is a row with a weight.[/] Orders arrive; each is added once.")
    orders = ZSet.from_arrow(
        pa.table({"id": [1, 2, 3], "customer": ["ada", "bob", "ada"], "amount": [10.5, 4.0, 20.25]})
    )
    show("orders", orders)

    OUT.print(
        "\n[bold]An update is −old +new, a delete is −old.[/] Order 1 is corrected, order 2 is cancelled."
    )
    first, second = orders.filter([True, False, False]), orders.filter([False, True, False])
    corrected = ZSet.from_arrow(pa.table({"id": [1], "customer": ["ada"], "amount": [12.5]}))
    change = corrected - first - second
    show("the change", change)

    OUT.print("\n[bold]A view follows by the change alone[/], and takes back what it said before.")
    before, after = totals(orders), totals((orders + change).consolidate())
    show("SUM(amount) GROUP BY customer: what changed", (after - before).consolidate())
    exact = Sum()
    for value in (0.1, 0.2):
        exact.accumulate(value)
    exact.retract(0.1)
    OUT.print(
        f"Sums of doubles stay exact: add 0.1 and 0.2, take 0.1 back: {exact.finalize()} is left, "
        f"not {0.1 + 0.2 - 0.1}."
    )

    OUT.print("\n[bold]For a sink that knows keys[/], a change collapses to upserts and deletes.")
    collapsed = collapse((orders + change).consolidate() - orders, key=["id"])
    OUT.print("  upserts:", collapsed.upserts.to_pylist())
    OUT.print("  deletes:", collapsed.deletes.to_pylist())
    OUT.print(f"\nOperations and their weights: {', '.join(f'{op.short} {op.weight:+d}' for op in Op)}")
    OUT.print("Next: README.md, and docs/changes.md for the whole vocabulary.\n")


if __name__ == "__main__":
    main()
