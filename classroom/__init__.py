"""What turns a notebook into a lesson: predictions, checks, hints and progress.

    predict("third-block", answer=lambda: ...)
    check("slot-of", slot_of)
    hint("slot-of")
    progress()

Nothing here knows the answers: predictions and checks ask the real manager.
"""

from classroom.checking import check
from classroom.exercise import Exercise, exercise
from classroom.hints import Hint, hint
from classroom.prediction import Prediction, predict
from classroom.results import CheckResult, CheckStatus
from classroom.session import Progress, Summary, progress

__all__ = [
    "CheckResult",
    "CheckStatus",
    "Exercise",
    "Hint",
    "Prediction",
    "Progress",
    "Summary",
    "check",
    "exercise",
    "hint",
    "predict",
    "progress",
]
