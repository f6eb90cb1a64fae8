"""`./dev generate`: write the files that follow from others.

- The shapes of requests and responses, for Python and TypeScript, follow from the server's OpenAPI document.
- The synchronous Python client follows from the asynchronous one: the same code without `async` and `await`.

`--check` writes nothing, and exits with 1 if a file is stale.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import textwrap
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src" / "longtake" / "client"
PYTHON_SHAPES = CLIENT / "shapes.py"
TYPESCRIPT_SHAPES = ROOT / "client" / "src" / "shapes.d.ts"
#: Equal names on both sides. `transport.py` is written by hand for each.
TWINS = ("__init__.py", "client.py", "resources.py")
WIDTH = 112

sys.path.insert(0, str(ROOT))


def main() -> None:
    """Write what is stale, or only name it."""
    check = "--check" in sys.argv
    files = generated()
    stale = [file for file, text in files.items() if not file.exists() or file.read_text("utf-8") != text]
    for file in [] if check else stale:
        file.write_text(files[file], "utf-8")
    names = ", ".join(str(file.relative_to(ROOT)) for file in stale)
    print(f"{'Stale' if check else 'Written'}: {names}" if stale else "All are current.")
    sys.exit(check and bool(stale))


def generated() -> dict[Path, str]:
    """Return the text of each generated file."""
    shapes = [*read_shapes(read_document())]
    return {
        PYTHON_SHAPES: python_shapes([shape for shape in shapes if not shape.is_request]),
        TYPESCRIPT_SHAPES: typescript_shapes(shapes),
        **{CLIENT / "_sync" / name: synchronous(name) for name in TWINS},
    }


def read_document() -> dict[str, Any]:
    """Return the OpenAPI document that a server in this process answers with."""
    from tests.service.processes import Place

    with tempfile.TemporaryDirectory() as folder, Place(Path(folder)).server_here() as server:
        with urllib.request.urlopen(f"{server.url}/openapi.json") as answer:  # noqa: S310 - our own server
            document: dict[str, Any] = json.load(answer)
        return document


#: Names of schemas in the clients, where they are not those of the server without `View` or `Answer`.
NAMES = {
    "AdvanceAnswer": "Advanced",
    "ImageReason": "SceneReason",
    "ImportAnswer": "ImportedItems",
    "ModelEstimate": "Usual",
    "SceneCounts": "RunTotal",
    "TaskCredits": "Price",
    "TaskError": "TaskFailure",
    "TaskEstimate": "Estimate",
    "TaskQueue": "QueuePlace",
    "TaskRetry": "NextTry",
    "TitleError": "TitleTrouble",
}


@dataclass(frozen=True)
class Shape:
    """A JSON object: its properties by name, and whether callers send it."""

    name: str
    meaning: str
    properties: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]
    is_request: bool


def read_shapes(document: Mapping[str, Any]) -> Iterator[Shape]:
    """Yield the objects that requests and successful responses consist of, by name."""
    schemas = document["components"]["schemas"]
    requests, responses = set[str](), set[str]()
    for operation in (one for methods in document["paths"].values() for one in methods.values()):
        _collect(operation.get("requestBody"), schemas, requests)
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                _collect(response, schemas, responses)
    for name in sorted(requests | responses, key=name_of):
        schema = schemas[name]
        required = frozenset(schema.get("required", ()))
        yield Shape(name_of(name), schema.get("description", ""), schema["properties"], required, name not in responses)


def _collect(value: Any, schemas: Mapping[str, Any], found: set[str]) -> None:
    """Add the names of all schemas that the value refers to, directly or not."""
    if isinstance(value, dict) and isinstance(value.get("$ref"), str):
        name = value["$ref"].rpartition("/")[2]
        if name not in found:
            found.add(name)
            _collect(schemas[name], schemas, found)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _collect(inner, schemas, found)


def name_of(schema: str) -> str:
    """Return the name of a schema in the clients."""
    return NAMES.get(schema) or re.sub(r"(View|Answer)$", "", schema)


def type_of(schema: Any, words: Mapping[str, str]) -> str:
    """Return the type of a value, in the words of one language."""
    if not isinstance(schema, dict) or not schema.keys() & {"$ref", "anyOf", "enum", "const", "type"}:
        return words["any"]
    if "$ref" in schema:
        return name_of(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(type_of(one, words) for one in schema["anyOf"])
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return words["choice"].format(words["or"].join(json.dumps(value) for value in values))
    inner = schema.get("items" if schema["type"] == "array" else "additionalProperties")
    return words[schema["type"]].format(type_of(inner, words))


PYTHON = {
    "any": "Any", "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
    "array": "list[{}]", "object": "dict[str, {}]", "choice": "Literal[{}]", "or": ", ",
}  # fmt: skip
PYTHON_HEADER = '''
"""Generated by scripts/generate.py from the server's OpenAPI document: do not edit.

The server's answers, as the HTTP API names them. A newer server may send further members, and further values of a
`Literal`: nothing is checked when an answer is read.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
'''


def python_shapes(shapes: list[Shape]) -> str:
    """Return a module with a TypedDict for each shape."""
    return formatted(PYTHON_HEADER.lstrip() + "".join(map(_python_class, shapes)), PYTHON_SHAPES)


def _python_class(shape: Shape) -> str:
    lines = ["", "", f"class {shape.name}(TypedDict):", f'    """{_python_docstring(shape.meaning)}"""', ""]
    for name, schema in shape.properties.items():
        lines += [f"    #: {line}" for line in textwrap.wrap(schema.get("description", ""), WIDTH)]
        kind = type_of(schema, PYTHON)
        lines.append(f"    {name}: {kind if name in shape.required else f'NotRequired[{kind}]'}")
    return "\n".join(lines) + "\n"


def _python_docstring(meaning: str) -> str:
    if len(meaning) <= WIDTH:
        return meaning
    summary, rest = re.split(r"(?<=[.]) ", meaning, maxsplit=1)
    return "\n    ".join([summary, "", *textwrap.wrap(rest, WIDTH), ""])


TYPESCRIPT = {
    "any": "any", "string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null",
    "array": "Array<{}>", "object": "Record<string, {}>", "choice": "{}", "or": " | ",
}  # fmt: skip
TYPESCRIPT_HEADER = """
// Generated by scripts/generate.py from the server's OpenAPI document: do not edit.
//
// What the server takes and answers, as the HTTP API names it. A newer server may send further members, and further
// values where strings are listed.
"""


def typescript_shapes(shapes: list[Shape]) -> str:
    """Return a declaration file with an interface for each shape."""
    return TYPESCRIPT_HEADER.lstrip() + "".join(map(_typescript_interface, shapes))


def _typescript_interface(shape: Shape) -> str:
    lines = ["", *_typescript_comment(shape.meaning), f"export interface {shape.name} {{"]
    for name, schema in shape.properties.items():
        lines += [f"  {line}" for line in _typescript_comment(schema.get("description", ""))]
        lines.append(f"  {name}{'' if name in shape.required else '?'}: {type_of(schema, TYPESCRIPT)};")
    return "\n".join([*lines, "}", ""])


def _typescript_comment(meaning: str) -> list[str]:
    lines = textwrap.wrap(meaning, WIDTH)
    return [f"/** {lines[0]} */"] if len(lines) == 1 else ["/**", *(f" * {one}" for one in lines), " */"] * bool(lines)


#: Applied in this order.
RULES = [
    (r'^"""[^"]*"""', '"""Generated by scripts/generate.py from {source}: do not edit."""'),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\baclosing\b", "closing"),
    (r"\b_async\b", "_sync"),
    (r"for (\w+) in (.+):\n +yield \1\n", r"yield from \2\n"),
]


def synchronous(name: str) -> str:
    """Return the text of a file of the synchronous client."""
    text = (CLIENT / "_async" / name).read_text("utf-8")
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    # Last, because the first line keeps the word `_async`.
    return formatted(text.replace("{source}", f"_async/{name}"), CLIENT / "_sync" / name)


def formatted(text: str, file: Path) -> str:
    """Return Python source as ruff formats it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(file), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
