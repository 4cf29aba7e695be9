"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# An example that takes long on a busy machine is no failure. The default deadline is 200 ms.
settings.register_profile("tiercast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tiercast")
