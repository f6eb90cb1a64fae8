"""Scenes: runs of several images, made at the pace that a provider allows."""

from longtake.capabilities.scenes.image_job import ImageMaker
from longtake.capabilities.scenes.models import SceneModels
from longtake.capabilities.scenes.runs import remove_runs_of
from longtake.capability import AccountRemover, Capability, Context
from longtake.services.models import OfferedModels


def capability(context: Context) -> Capability:
    """Return what scenes register."""
    models = SceneModels(context.get(OfferedModels), context.providers)
    lanes = models.lanes(context.settings.scenes_per_minute, context.settings.scenes_at_once)
    return Capability(
        kinds=[ImageMaker(context).kind()],
        lanes=list(lanes.values()),
        keyed_lanes={provider: [lane] for provider, lane in lanes.items()},
        routers="longtake.capabilities.scenes.routes:routers",
        event_types=(
            *("run.created", "run.queued", "run.finished", "run.cancelled", "run.deleted"),
            *("scene.processing", "scene.retrying", "scene.completed", "scene.failed"),
        ),
        offers=[models],
        account_removers=[AccountRemover(remove_runs_of)],
    )
