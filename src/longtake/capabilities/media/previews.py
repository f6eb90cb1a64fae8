"""The job kind `assets.preview`: makes a short moving preview of a video, when nothing more urgent is to be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from longtake.adapters.decoder.errors import DecodersBusy, MediaRefused
from longtake.adapters.decoder.protocol import DecodeRequest
from longtake.adapters.storage.errors import StorageError
from longtake.adapters.storage.keys import preview_key
from longtake.capabilities.media.range_reader import StoredFile
from longtake.capabilities.media.store import find_asset
from longtake.capabilities.media.thumbnails import note_no_preview, note_preview
from longtake.engine.errors import LeaseLost
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.errors import LongtakeError
from longtake.services.assets import PREVIEW, Asset
from longtake.services.assets.errors import AssetGone

if TYPE_CHECKING:
    from longtake.adapters.decoder.pool import DecoderPool
    from longtake.adapters.storage import Storage
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine

#: Few at once: nothing waits for previews.
PREVIEW_LANE = Lane(PREVIEW, max_running=4)
#: A preview needs frames from the whole file and so our copy: how often to look for that.
LOOK_SECONDS = 15.0
MOST_LOOKS = 40
WAITS = (60.0, 300.0)
STORAGE_SECONDS = 60.0
WEBP = "image/webp"


def _key(asset: Asset) -> str:
    return preview_key(asset.id, asset.file_number)


class Previews:
    """Runs the jobs that make previews."""

    def __init__(self, database: Database, storage: Storage, decoders: DecoderPool) -> None:
        self._database = database
        self._storage = storage
        self._decoders = decoders

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(
            PREVIEW,
            self.run,
            self.settle,
            lane=PREVIEW_LANE.name,
            priority=Priority.LOW,
            time_limit=60.0,
            max_attempts=len(WAITS) + 1,
            back_off=Steps(WAITS),
        )

    async def run(self, job: Job) -> Outcome:
        """Make the preview from our copy; wait while there is none."""
        asset = await self._database.read(find_asset, job.args["asset"])
        if asset is None:
            return Cancelled("The asset is gone.")
        if asset.preview_key is not None:
            return Done()
        if asset.key is None:
            if job.snoozes >= MOST_LOOKS:
                return Fail("NO_COPY", "There is still no copy of the file.")
            return Snooze(LOOK_SECONDS)
        try:
            file = await StoredFile.open(self._storage, asset.key)
            made = await self._decoders.decode(DecodeRequest("preview", asset.content_type or ""), file)
            await self._storage.put(_key(asset), made.picture, WEBP)
        except LeaseLost:
            raise
        except (MediaRefused, AssetGone) as error:
            return Fail(error.code, error.message)
        except (StorageError, DecodersBusy) as error:
            # Our own fault counts as no attempt.
            return Snooze(STORAGE_SECONDS, code=error.code, message=error.message)
        except LongtakeError as error:
            return Retry(error.code, error.message)
        return Done(data=asset)

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write the results of the tries."""
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["asset"])):
            # An end that only the engine saw (a crash, a time limit) brings no asset.
            asset_id: str = one.job.args["asset"]
            match one.outcome:
                case Done(data=Asset() as asset):
                    note_preview(tx, asset, _key(asset))
                case Fail(code=code, message=message):
                    note_no_preview(tx, asset_id, f"{code}: {message}")
                case Cancelled(reason=reason):
                    note_no_preview(tx, asset_id, f"CANCELLED: {reason}")
                case _:
                    pass
