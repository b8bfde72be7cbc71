"""The nodes as Prefect tasks; with :mod:`conversation.flow` the only place that imports Prefect."""
