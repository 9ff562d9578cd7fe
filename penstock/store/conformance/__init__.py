"""What a store must do to be one, as functions that take an empty store and assert.

Whoever writes a backend runs them all over it; with pytest it takes these lines::

    @pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
    def test_my_store_conforms(claim, my_empty_store):
        claim(my_empty_store)

    TestMyStore = penstock.store.conformance.model.machine(new_empty_store).TestCase

`penstock.store.conformance.model` compares a store with a dictionary over whatever sequence of calls
Hypothesis thinks of, and is the only part that needs it.
"""

from penstock.store.conformance import blobs, listings, races, writers
from penstock.store.conformance.asserting import Claim

__all__ = ["CLAIMS", "Claim"]

CLAIMS: tuple[Claim, ...] = (*blobs.CLAIMS, *listings.CLAIMS, *writers.CLAIMS, *races.CLAIMS)
