"""The commands of `bib`, a module each: what it is asked for, what it does, and what it prints.

Only `backfill` imports Dagster, and only when it runs; nothing heavy is imported to print the help.
"""

DONE, FAILED, WRONG = 0, 1, 2
