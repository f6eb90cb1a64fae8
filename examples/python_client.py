"""A picture from Python: `TOKEN=$(longtake token --user local) python examples/python_client.py http://127.0.0.1:8484`.

The picture is written into the working folder. The task goes on if this program is stopped.
"""

import os
import sys

from longtake.client import Client, LongtakeApiError


def main(url: str) -> None:
    """Make a picture and download it."""
    with Client(url, os.environ["TOKEN"]) as client:
        try:
            task = client.generate("a red fox in snow", wait=True)
        except LongtakeApiError as error:
            sys.exit(f"{error.code}: {error}")
        if task["status"] != "completed":
            sys.exit(f"The task {task['id']} is {task['status']}: {task['error']}")
        print(client.download(task["results"][0], "."))


if __name__ == "__main__":
    main(sys.argv[1])
