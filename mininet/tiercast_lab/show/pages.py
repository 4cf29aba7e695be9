"""Renders HTML pages: each is a single file that refers to no others."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """Renders a template. Every template can use `css`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    css = Markup((TEMPLATES / "report.css").read_text())
    return environment.get_template(template).render(css=css, **values)


def script_json(value: Any) -> str:
    """JSON that is safe inside a <script>."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def embedded(image: Path | bytes) -> str:
    """A PNG as a data URL."""
    content = image if isinstance(image, bytes) else image.read_bytes()
    return "data:image/png;base64," + base64.b64encode(content).decode()
