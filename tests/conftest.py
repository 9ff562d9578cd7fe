"""What holds for all tests: no timing is ever asserted, not by Hypothesis either. Machines are noisy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")
