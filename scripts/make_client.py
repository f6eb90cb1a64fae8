"""Generate the synchronous client from the asynchronous one: the same code without `async` and `await`.

`--check` writes nothing and exits with 1 if a file is stale.
"""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parent.parent / "src" / "longtake" / "client"
#: Equal names on both sides. `transport.py` is written by hand for each.
FILES = ("catalogue.py", "client.py", "resources.py")
#: Applied in this order.
RULES = [
    (r'^"""[^"]*"""', '"""Made from {source} by scripts/make_client.py: do not edit."""'),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\baclosing\b", "closing"),
    (r"\b_async\b", "_sync"),
    (r"for (\w+) in (.+):\n +yield \1\n", r"yield from \2\n"),
]


def synchronous(file: str) -> str:
    """Return the text of the synchronous file."""
    text = (CLIENT / "_async" / file).read_text(encoding="utf-8")
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    # Last, because the first line keeps the word `_async`.
    text = text.replace("{source}", f"_async/{file}")
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(CLIENT / "_sync" / file), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    stale = []
    for name in FILES:
        text, target = synchronous(name), CLIENT / "_sync" / name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                target.write_text(text, encoding="utf-8")
    print(f"{'Stale' if '--check' in sys.argv else 'Written'}: {', '.join(stale)}" if stale else "All are current.")
    sys.exit(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    main()
