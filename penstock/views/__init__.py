"""Views: created from SQL, advanced tick by tick, committed by one atomic create each, recovered, read.

`Workspace` puts a database's rooms together. `Pipeline` is the driver of the views that advance together, and
`TickLog` the log that its manifests are.
"""

from penstock.views.catalog import Catalog, CatalogStore, Table, View
from penstock.views.manifest import Manifest
from penstock.views.pipeline import Pipeline, Ticked
from penstock.views.progress import Progress
from penstock.views.reading import ViewReader
from penstock.views.result import Result
from penstock.views.running import Running
from penstock.views.tick_log import TickLog
from penstock.views.workspace import TableHandle, ViewStatus, Workspace

__all__ = [
    "Catalog",
    "CatalogStore",
    "Manifest",
    "Pipeline",
    "Progress",
    "Result",
    "Running",
    "Table",
    "TableHandle",
    "TickLog",
    "Ticked",
    "View",
    "ViewReader",
    "ViewStatus",
    "Workspace",
]
