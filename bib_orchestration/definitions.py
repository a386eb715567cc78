"""What `dagster dev` loads: the definitions of the bib.toml in use (see `settings.find_config`)."""

from bib_orchestration.biblioteca.settings import load_settings
from bib_orchestration.build import build_definitions

# A source that has vanished must not take the others down with it: its own run fails, and says so.
defs = build_definitions(load_settings(missing_sources="keep"))
