"""Where the drivers are put, apart from them, so that several modules can add theirs."""

from __future__ import annotations

DRIVERS = {}


def drives(*names):
    def put(function):
        DRIVERS.update(dict.fromkeys(names, function))
        return function

    return put
