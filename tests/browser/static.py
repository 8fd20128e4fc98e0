"""A notebook as a page without a kernel: what GitHub, nbviewer or a hand-out shows."""

from __future__ import annotations

from pathlib import Path

import nbconvert
from playwright.sync_api import Browser, Page


def export_html(notebook: Path, folder: Path, dark: bool = False) -> Path:
    """Turn a notebook *as saved* into one HTML file; nothing is executed."""
    theme = "dark" if dark else "light"
    exporter = nbconvert.HTMLExporter(theme=theme)  # type: ignore[no-untyped-call]
    html, _ = exporter.from_filename(str(notebook))
    page = folder / f"{notebook.stem}.html"
    page.write_text(html, encoding="utf-8")
    return page


def open_without_kernel(
    chromium: Browser, notebook: Path, folder: Path, dark: bool = False
) -> Page:
    """Open a saved notebook's page with the network cut: no kernel, no CDN."""
    context = chromium.new_context(
        viewport={"width": 1280, "height": 900},
        offline=True,
        color_scheme="dark" if dark else "light",
    )
    page = context.new_page()
    html = export_html(notebook, folder, dark)
    page.goto(html.as_uri(), wait_until="domcontentloaded")
    return page
