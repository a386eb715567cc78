"""Resources: what assets, checks, ops and jobs are handed.

The knowledge base itself is the resource, a plain object of the ground floor: its parts connect on first
use, never when code is loaded, and a warm process keeps its model and its index in memory.
"""

import dagster as dg

from bib_orchestration.biblioteca.library import Library

LibraryResource = dg.ResourceParam[Library]
