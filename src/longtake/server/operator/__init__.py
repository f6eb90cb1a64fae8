"""The operators' actions: one list, used both through the server and directly on the database.

``await perform(engine, "lanes.pause", {"name": "posters"})`` checks the arguments, runs the action in one transaction
and returns plain data. The command line and ``POST /v1/operator/{action}`` are two ways to call it.
"""

from longtake.server.operator.actions import ACTIONS, Action
from longtake.server.operator.perform import check_arguments, find_action, perform

__all__ = ["ACTIONS", "Action", "check_arguments", "find_action", "perform"]
