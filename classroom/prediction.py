"""`predict`: a question that must be answered before the manager answers it.

A learner commits first ("Lock my prediction"); only then is `answer` called, which
asks the real manager. A locked prediction cannot be changed: running the cell again
shows it again. One function draws every state, for the live card and for a page
without a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from classroom import look
from classroom.kinds import BadAnswer, Choice, Kind, kind_named, tidy
from classroom.prediction_view import PredictionView
from classroom.questions import find_question
from classroom.session import Locked, progress
from figures.stage import view_bundle

Explain = str | Callable[[Any], str]


def predict(
    name: str,
    question: str | None = None,
    answer: Callable[[], object] | None = None,
    *,
    choices: Sequence[str] | None = None,
    kind: Kind | str = "integer",
    explain: Explain = "",
    picture: Callable[[], str] | None = None,
    unit: str = "",
    guess: object | None = None,
) -> Prediction:
    """Ask a question; when the learner has locked a guess, reveal what `answer()` says.

    Without `question`, the one called `name` in `classroom.questions` is asked, with
    its choices, its kind and its explanation: a cell that shows these would give the
    answer away.

    Raises `UnknownQuestion` if there is none, and `TypeError` without `answer`.

    `kind` is "integer", "number", "blocks" (a list, order counts), "block set", "text",
    or an object of `classroom.kinds`; with `choices` the question is multiple choice
    and `answer()` returns one of them. `explain` is one or two sentences, or a function
    of the manager's answer. `picture()` returns an SVG. `unit` stands beside the box.
    `guess` locks at once, without clicking.

    Put it last in a cell, so that it is shown. In `question` and `explain`, `backticks`
    make code; everything else is shown exactly as it is.
    """
    if answer is None:
        raise TypeError("predict needs answer=..., a function that asks the manager")
    if question is None:
        question, explain, choices, kind, unit = find_question(name)
    asked = Choice(tuple(choices)) if choices is not None else kind_named(kind)
    prediction = Prediction(name, question, answer, asked, explain, picture, unit)
    before = progress.showing.get(name)
    if before is not None:
        before.close()  # the cell was run again: no second set of callbacks
    progress.showing[name] = prediction
    return prediction if guess is None else prediction.lock(guess)


class Prediction:
    """One question and, once it is locked, its guess and the manager's answer.

    What was locked is kept in `classroom.progress` under `name`; everything else is
    computed from it, so two objects of one name never disagree.
    """

    def __init__(
        self,
        name: str,
        question: str,
        answer: Callable[[], object],
        kind: Kind,
        explain: Explain = "",
        picture: Callable[[], str] | None = None,
        unit: str = "",
    ) -> None:
        self.name = name
        self.question = question
        self.kind = kind
        self.unit = unit
        self.message = ""
        self._answer = answer
        self._explain = explain
        self._picture = picture
        self._revealed = ""
        self._view: PredictionView | None = None
        self.refresh()

    def __repr__(self) -> str:
        record = self._record
        if record.guess is None:
            note = f": {self.message}" if self.message else ""
            return f"Prediction({self.name!r}, open{note})"
        state = {True: "right", False: "not this time", None: "no answer"}[record.right]
        return f"Prediction({self.name!r}, locked {record.guess!r}, {state})"

    @property
    def _record(self) -> Locked:
        return progress.predictions.setdefault(self.name, Locked())

    @property
    def locked(self) -> bool:
        """True once the learner has committed."""
        return self._record.guess is not None

    @property
    def right(self) -> bool | None:
        """Whether the guess was what the manager did; None while it is open."""
        return self._record.right

    def lock(self, guess: object) -> Prediction:
        """Commit to `guess` and reveal the answer; returns itself, to be shown.

        Never raises: a guess that cannot be read leaves the question open, with
        `message` saying what was expected; a second guess changes nothing.
        """
        if self.locked:
            self.message = f"It is locked already: you predicted {self._guess_text()}."
            return self
        try:
            text = _as_text(guess)
            self.kind.read(text)
        except BadAnswer as problem:
            self.message = str(problem)
            return self
        self.message = ""
        self._record.guess = tidy(text)
        self.refresh()
        return self

    def refresh(self) -> None:
        """Compute what is shown from what is locked, and show it."""
        self._revealed = self._reveal() if self.locked else ""
        if self._view is not None:
            self._view.body = self.html(live=True)

    def close(self) -> None:
        """Take the live card out of service; what was locked stays locked."""
        if self._view is not None:
            self._view.close()
            self._view = None

    # --- the reveal -------------------------------------------------------------------

    def _reveal(self) -> str:
        """The lower half of the card: asks the manager, marks the guess, explains."""
        try:
            return self._marked(self._answer())
        except Exception as error:  # shown in the card, where the learner looks
            self._record.right = None
            text = f"The manager could not answer: {type(error).__name__}: {error}"
            rows = look.pairs([("You predicted", self._guess_text())])
            return rows + look.verdict("bad", "!", "No answer.", text)

    def _marked(self, actual: object) -> str:
        right = self.kind.same(actual, self._guess())
        explain = self._explain(actual) if callable(self._explain) else self._explain
        svg = self._picture() if self._picture is not None else None
        self._record.right = right
        tone, sign, word = (
            ("good", "✓", "Right.") if right else ("bad", "✗", "Not this time.")
        )
        rows = [
            ("You predicted", self._guess_text()),
            ("The manager's answer", self._with_unit(self.kind.show(actual))),
        ]
        box = look.verdict(tone, sign, word, explain)
        return look.pairs(rows) + box + look.picture(svg)

    def _guess(self) -> object:
        text = self._record.guess or ""
        try:
            return self.kind.read(text)
        except BadAnswer:  # the question was changed after it was locked
            return text

    def _guess_text(self) -> str:
        return self._with_unit(self.kind.show(self._guess()))

    def _with_unit(self, text: str) -> str:
        return f"{text} {self.unit}".strip()

    # --- how it looks -----------------------------------------------------------------

    def html(self, live: bool = False) -> str:
        """The card. `live`: with controls, for the widget; else for any page."""
        ask = look.inline(self.question)
        asking = live and not self.locked
        if asking:
            body = _as_form(ask, self._controls())
        else:
            lower = self._revealed if self.locked else self._still()
            body = f'<div class="ask">{ask}</div>{lower}'
        kicker = "Predict · locked" if self.locked else "Predict"
        return look.card(
            f'<div class="kicker">{kicker}</div>', body, self._note(), form=asking
        )

    def _note(self) -> str:
        text = look.escape(self.message)
        return f'<div class="note wrong">{text}</div>' if text else ""

    def _controls(self) -> str:
        if isinstance(self.kind, Choice):
            return "".join(map(_option, self.kind.options)) + _line()
        label = f"Your prediction: {self.kind.ask}"
        unit = f"<span>{look.escape(self.unit)}</span>" if self.unit else ""
        box = '<input type="text" name="answer" autocomplete="off" spellcheck="false">'
        return _line(
            f'<label class="typed"><span>{look.escape(label)}</span>{box}</label>{unit}'
        )

    def _still(self) -> str:
        options = self.kind.options if isinstance(self.kind, Choice) else ()
        items = "".join(f"<li>{look.inline(option)}</li>" for option in options)
        listed = f"<ul>{items}</ul>" if items else ""
        note = "Run this cell in JupyterLab to lock a prediction and see the answer."
        return f'{listed}<div class="note">{note}</div>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """The live card for a notebook, and the same card for a page without kernel."""
        if self._view is None:
            self._view = PredictionView(body=self.html(live=True), on_guess=self._asked)
        return view_bundle(repr(self), self.html(), self._view.model_id)

    def _asked(self, guess: str) -> str:
        """The button was pressed; returns what to say if the question stays open."""
        self.lock(guess)
        return self.message


def _as_text(guess: object) -> str:
    """A guess given from Python as the text that one would type for it."""
    try:
        if isinstance(guess, set | frozenset):
            guess = sorted(guess)
        if isinstance(guess, list | tuple):
            return ", ".join(map(str, guess)) or "none"
        return str(guess)
    except Exception:  # it has no order, no text, or too many digits
        raise BadAnswer(
            "This can't be read as an answer: give a number, a text or a list."
        ) from None


def _as_form(ask: str, controls: str) -> str:
    legend = f'<legend class="ask">{ask}</legend>'
    return f"<form><fieldset>{legend}{controls}</fieldset></form>"


def _option(text: str) -> str:
    radio = f'<input type="radio" name="answer" value="{look.escape(text)}">'
    return f'<label class="option">{radio}<span>{look.inline(text)}</span></label>'


def _line(first: str = "") -> str:
    button = '<button type="submit">Lock my prediction</button>'
    status = '<div class="note" role="status"></div>'
    return f'<div class="line">{first}{button}</div>{status}'
