"""An application that knows nothing of Longtake but its tables: `python examples/start_by_sql.py longtake.db URL`.

It writes a finished video as a row. Copy and thumbnail start with the row, in whichever process a worker runs.
"""

import sqlite3
import sys
import time
import uuid

INSERT = "INSERT INTO videos (id, user_id, status, video_url) VALUES (?, 'ada', 'completed', ?)"
STATES = "SELECT migration_status, thumbnail_generation_status FROM videos WHERE id = ?"
OVER = {"completed", "failed"}


def main(path: str, url: str) -> None:
    """Write the row, then look until copy and thumbnail have ended."""
    video = str(uuid.uuid4())
    connection = sqlite3.connect(path, timeout=10, isolation_level=None)
    connection.execute(INSERT, (video, url))
    while True:
        copy, thumbnail = connection.execute(STATES, (video,)).fetchone()
        if copy in OVER and thumbnail in OVER:
            break
        time.sleep(0.2)
    print(f"{video}: copy {copy}, thumbnail {thumbnail}")
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
