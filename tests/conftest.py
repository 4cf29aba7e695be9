"""What all tests share."""

from hypothesis import HealthCheck, settings

# An example that a busy machine takes long over is no failure: by default 200 ms is one.
settings.register_profile("tiercast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tiercast")
