"""Generation: tasks that providers work on, from the submit to the last event."""

from longtake.adapters.providers.registry import lanes_of
from longtake.capabilities.generation.deadlines import DeadlineSweep
from longtake.capabilities.generation.health import HealthCheck
from longtake.capabilities.generation.jobs import JobContext
from longtake.capabilities.generation.lost_submits import LostSubmitHandler
from longtake.capabilities.generation.outlook import Outlooks
from longtake.capabilities.generation.poll import PollHandler
from longtake.capabilities.generation.removal import Retention, end_tasks_of, remove_tasks_of
from longtake.capabilities.generation.service import TaskViews
from longtake.capabilities.generation.submit import SubmitHandler
from longtake.capabilities.generation.tables import CHECK, PRUNE, SWEEP
from longtake.capabilities.generation.task_assets import TaskAssets
from longtake.capabilities.generation.watch import Watch
from longtake.capability import AccountRemover, Capability, Context
from longtake.engine.schedules import Schedule
from longtake.services.live.feed import Feed


def capability(context: Context) -> Capability:
    """Return what generation registers."""
    database, providers = context.database, context.providers
    jobs = JobContext(context)
    about_one = (SubmitHandler(jobs), PollHandler(jobs), LostSubmitHandler(jobs))
    scheduled = (DeadlineSweep(jobs), HealthCheck(jobs), Retention(database, context.settings.task_days))
    watch = Watch(database, context.clock, context.get(Feed))
    views = TaskViews(watch, Outlooks(database, context.clock, list(jobs.models)), jobs.links)
    return Capability(
        kinds=[one.kind() for one in (*about_one, *scheduled)],
        lanes=lanes_of(providers),
        keyed_lanes={name: [one.submit_lane, one.query_lane] for name, one in providers.items()},
        schedules=[
            Schedule(SWEEP, SWEEP, every=15.0),
            Schedule(CHECK, CHECK, every=60.0),
            Schedule(PRUNE, PRUNE, every=3_600.0),
        ],
        routers="longtake.capabilities.generation.routes:routers",
        event_types=(
            *("task.created", "task.running", "task.progress", "task.trouble", "task.needs_review"),
            *("task.completed", "task.failed", "task.cancelled", "task.refunded", "task.deleted"),
        ),
        snapshot="longtake.capabilities.generation.routes:part",
        offers=[views],
        asset_owners=[TaskAssets(jobs)],
        # Their credits are released before the tasks are removed.
        account_removers=[AccountRemover(end_tasks_of), AccountRemover(remove_tasks_of)],
        beside_server=[watch.running],
    )
