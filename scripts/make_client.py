"""Write the synchronous client anew from the asynchronous one: the same words without `async` and `await`.

`--check` writes nothing and ends with 1 when a file is not what it would be.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "src" / "longtake" / "client"
SOURCES = {
    "asynchronous.py": "synchronous.py",
    "resources_asynchronous.py": "resources_synchronous.py",
    "runs_asynchronous.py": "runs_synchronous.py",
    "catalogue_asynchronous.py": "catalogue_synchronous.py",
}
#: In this order.
RULES = [
    (r'^"""[^"]*"""', '"""Made from {source} by scripts/make_client.py: do not change it here."""'),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\baclosing\b", "closing"),
    (r"asynchronous\b", "synchronous"),
    (r"for (\w+) in (.+):\n +yield \1\n", r"yield from \2\n"),
]


def synchronous(source: str) -> str:
    """Return the text of the synchronous file."""
    text = (FOLDER / source).read_text(encoding="utf-8")
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    # Its name in the first line is the one thing that keeps its word.
    text = text.replace("{source}", source)
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FOLDER / SOURCES[source]), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    stale = []
    for source, target in SOURCES.items():
        wanted, file = synchronous(source), FOLDER / target
        if not file.exists() or file.read_text(encoding="utf-8") != wanted:
            stale.append(target)
            if "--check" not in sys.argv:
                file.write_text(wanted, encoding="utf-8")
    print(f"{'Stale' if '--check' in sys.argv else 'Written'}: {', '.join(stale)}" if stale else "All are current.")
    sys.exit(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    main()
