"""What people hand in, made into batches of exactly the columns that are wanted.

Two doors: `rows_of` for rows, `changes_of` for rows with operations or weights. Both take Arrow, pandas,
Polars, dictionaries and tuples, and both lose nothing: a value is taken if it can be told from what was kept
what was given, and refused, by column and row, if not. The list of what is taken is in docs/design/intake.md.

From what is handed in (`given`) come columns; a column is converted (`convert`) as one Arrow array by fast
casts that know when they cannot answer (`casts`, `texts`, `lists`), and where they cannot, value by value
(`scalars`), which is the plain statement of the rules and the only place that refuses.
"""

from penstock.changes.intake.changes import changes_of
from penstock.changes.intake.rows import rows_of

__all__ = ["changes_of", "rows_of"]
