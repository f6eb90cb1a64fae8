"""What runs inside a child process: `python -m bench.child MODULE:FUNCTION ARGUMENTS`, with arguments as a JSON object.

The function's result is the last line of standard output, as JSON.
"""

import importlib
import json
import sys


def main() -> None:
    module_name, function_name = sys.argv[1].split(":")
    function = getattr(importlib.import_module(module_name), function_name)
    result = function(**json.loads(sys.argv[2]))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
