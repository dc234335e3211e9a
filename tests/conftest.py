"""Settings for all tests: how fast inputs are made is the machine's affair, not the code's."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("torchvet", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("torchvet")
