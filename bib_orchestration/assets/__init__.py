"""Assets, one module a stage. A body says what it depends on and what it reports; the work is one call
below, in `biblioteca`."""

OWNERS = ["team:biblioteca"]
