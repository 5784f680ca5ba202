"""Hypothesis on a machine that is busy with other things: how long an example takes is no fault.

Imported by the conftest of a folder, before its tests make settings of their own.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
