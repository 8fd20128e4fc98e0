"""A table on a page: a caption, a head, and a first column that names each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from figures.words import plural


def html_table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    count: int | None = None,
    one: str = "row",
) -> str:
    """The table as HTML. If `rows` are only the first of `count`, it ends with how many
    are left out, each called `one`.

    All that is given stands in it as it is: what a person typed has to be escaped.
    """
    body = [_row(*cells) for cells in rows]
    columns = "".join(f"<th scope='col'>{name}</th>" for name in head)
    more = 0 if count is None else count - len(body)
    rest = f"<p>… and {plural(more, one)} more.</p>" if more else ""
    return (
        f"<table><caption>{caption}</caption><thead><tr>{columns}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>{rest}"
    )


def _row(first: str, *others: str) -> str:
    values = "".join(f"<td>{cell}</td>" for cell in others)
    return f"<tr><th scope='row'>{first}</th>{values}</tr>"
