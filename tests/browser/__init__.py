"""Tests in a real browser: JupyterLab in Chromium, as a student has it."""
