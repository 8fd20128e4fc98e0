"""The picture of four memories: a strip each, slot by slot, and the account of it."""

from __future__ import annotations

from collections.abc import Iterator

from figures.layout import MARGIN, WIDTH
from figures.marks import checked
from figures.reservations.film import SLOTS, Frame, Piece, ReservationFilm
from figures.sheet import frame, one_line
from figures.theme import owner_class
from figures.words import clip, esc, plural, width

LANE = 116
NAMES = 42  # baseline of the owners' names
STRIP, HEIGHT = 49, 34
NUMBERS = 103  # baseline of the account
CELL = (WIDTH - 2 * MARGIN) / SLOTS
TITLES = 130  # where the rule begins, behind the title

KINDS = ("token", "later", "never", "spare", "none")
"""A slot with a token; for later; never used; rounded up; in nobody's hands."""

CSS = one_line("""
.kvres .token{fill:var(--fill);stroke:var(--own)}
.kvres .later{fill:var(--paper);stroke:var(--own);stroke-width:1.4}
.kvres .never{fill:var(--inset);stroke:var(--own);stroke-width:1.2}
.kvres .spare{fill:none;stroke:var(--edge);stroke-width:3.4}
.kvres .none{fill:none;stroke:var(--edge);stroke-dasharray:2 2}
.kvres .all{fill:none;stroke:var(--own,var(--edge));stroke-width:2}
.kvres .nobody .all{stroke:var(--edge);stroke-width:1;stroke-dasharray:4 3}
.kvres .came .all{stroke-width:3.6}
.kvres .here{fill:var(--text);font-weight:700;text-anchor:middle}
.kvres .num{font-weight:700;font-size:15px}
.kvres .right{text-anchor:end}
.kvres .rule{fill:none;stroke:var(--line)}
.kvres .ink{--fill:var(--hatch);--own:var(--edge)}
""")

LEGEND = (
    ("token", "K and V of a token"),
    ("later", "reserved: filled later"),
    ("never", "internal: never filled"),
    ("spare", "external: rounded up"),
    ("none", "external: free"),
)


def reservations_svg(film: ReservationFilm, step: int, prefix: str = "kres") -> str:
    """The four lanes after `step`, as an SVG string."""
    lanes = "".join(
        f"<g transform='translate(0 {MARGIN / 2 + lane * LANE:g})'>"
        f"{''.join(_lane(film, lane, step))}</g>"
        for lane in range(4)
    )
    height = MARGIN / 2 + 4 * LANE + 30
    return frame(
        lanes + _legend(height - 12),
        WIDTH,
        height,
        name=f"Four memories of {SLOTS} slots, step {step}",
        words=" ".join(told(film, lane, step) for lane in range(4)),
        prefix=checked(prefix) or "kres",
        owners=range(len(film.requests)),
        kind="kvres",
        css=CSS,
    )


def told(film: ReservationFilm, lane: int, step: int) -> str:
    """A lane in words."""
    now, name = film.frame(lane, step), film.titles[lane][0]
    a = now.account
    return (
        f"{name}: {plural(now.running, 'request')} run and {now.waiting} wait; "
        f"{a.used} slots hold a token, {a.reserved} are reserved for later, "
        f"{a.internal} never used, {a.external} external."
    )


def _lane(film: ReservationFilm, lane: int, step: int) -> Iterator[str]:
    now, (title, rule) = film.frame(lane, step), film.titles[lane]
    yield f"<text class='name' x='{MARGIN}' y='18'>{title}</text>"
    yield f"<text class='note' x='{MARGIN + TITLES}' y='18'>{rule}</text>"
    room = WIDTH - 2 * MARGIN - TITLES - width(rule) - 24
    said = esc(clip(film.sentence(lane, step), room))
    yield f"<text class='right' x='{WIDTH - MARGIN}' y='18'>{said}</text>"
    for piece in now.pieces:
        yield _piece(piece, now)
    yield from _names(now.pieces)
    yield from _account(now, film.done(lane, step))
    if lane < 3:
        yield f"<path class='rule' d='M{MARGIN} {LANE - 3}H{WIDTH - MARGIN}'/>"


# --- a piece and its slots ----------------------------------------------------------


def _piece(piece: Piece, now: Frame) -> str:
    """The slots of a piece, each by its kind, in a frame that holds them together."""
    kinds = ["nobody"]
    if piece.owner is not None:
        kinds = [owner_class(int(piece.owner[1:]))]
        kinds += ["came"] if piece.owner in now.came else []
    rest = piece.size - piece.tokens - piece.later - piece.never
    spare, free = (rest, 0) if piece.owner is not None else (0, rest)
    counts = (piece.tokens, piece.later, piece.never, spare, free)
    slots, at = "", piece.start
    for kind, count in zip(KINDS, counts, strict=True):
        slots += _slots(kind, MARGIN + at * CELL, STRIP + 4, count)
        at += count
    x, y = MARGIN + piece.start * CELL + 3, STRIP + HEIGHT / 2
    slots += f"<path class='stripe' d='M{x:.1f} {y:g}h{piece.tokens * CELL - 6:.1f}'/>"
    box = f"x='{MARGIN + piece.start * CELL + 0.9:.2f}' y='{STRIP}'"
    return (
        f"<g class='{' '.join(kinds)}'>{slots}<rect class='all' {box} "
        f"width='{piece.size * CELL - 1.8:.2f}' height='{HEIGHT}' rx='3'/></g>"
    )


def _slots(kind: str, x: float, y: float, count: int) -> str:
    """So many slots of one kind in one path: a box for each, with its sign."""
    if not count:
        return ""
    w, h = CELL - 4.4, HEIGHT - 8
    sign = {
        "later": f"m0 {h:g}l{w:.2f} -{h:g}",
        "never": f"m0 {h:g}l{w:.2f} -{h:g}m-{w:.2f} 0l{w:.2f} {h:g}",
        "spare": f"m{w / 2 - 1.5:.2f} {h / 2:g}h3",
    }
    box = f"h{w:.2f}v{h:g}h-{w:.2f}z" if kind != "spare" else ""
    d = "".join(
        f"M{x + i * CELL + 2.2:.2f} {y:g}{box}{sign.get(kind, '')}"
        for i in range(count)
    )
    return f"<path class='{kind}' d='{d}'/>"


def _names(pieces: tuple[Piece, ...]) -> Iterator[str]:
    """Whose piece it is, above it; once for neighbours of one owner."""
    runs: list[tuple[str, int, int]] = []
    for piece in pieces:
        if piece.owner is None:
            continue
        if runs and runs[-1][0] == piece.owner and runs[-1][2] == piece.start:
            runs[-1] = piece.owner, runs[-1][1], piece.start + piece.size
        else:
            runs.append((piece.owner, piece.start, piece.start + piece.size))
    for name, start, end in runs:
        x = MARGIN + (start + end) / 2 * CELL
        colour = owner_class(int(name[1:]))
        yield f"<text class='here {colour}' x='{x:.1f}' y='{NAMES}'>{name}</text>"


# --- what it is good for ------------------------------------------------------------


def _account(now: Frame, done: int) -> Iterator[str]:
    a = now.account
    people = f"{now.running} run · {now.waiting} wait · {done} served"
    yield f"<text x='{MARGIN}' y='{NUMBERS}'>{people}</text>"
    parts = (
        ("token", a.used, "tokens"),
        ("later", a.reserved, "reserved"),
        ("never", a.internal, "internal"),
        ("none", a.external, "external"),
    )
    for place, (kind, number, word) in enumerate(parts):
        x = 250 + 158 * place
        sample = _slots(kind, 0, 0, 1)
        yield (
            f"<g class='ink' transform='translate({x} {NUMBERS - 12}) scale(1 .54)'>"
            f"{sample}</g>"
            f"<text x='{x + 20}' y='{NUMBERS}'>"
            f"<tspan class='num'>{number}</tspan> {word}</text>"
        )


def _legend(y: float) -> str:
    x, drawn = float(MARGIN), ""
    for kind, text in LEGEND:
        place = f"{x:g} {y - 12:g}) scale(1 .54"
        if kind == "spare":  # a dot is not to be pressed flat
            place = f"{x:g} {y - 5 - (HEIGHT - 8) / 2:g}"
        drawn += (
            f"<g transform='translate({place})'>{_slots(kind, 0, 0, 1)}</g>"
            f"<text class='note' x='{x + 18:g}' y='{y:g}'>{text}</text>"
        )
        x += 34 + width(text)
    return f"<g class='ink'>{drawn}</g>"
