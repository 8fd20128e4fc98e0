"""What turns a notebook into a lesson: predictions, checks, hints and progress.

    predict("03-slot-of-nine", answer=lambda: ...)
    check("03-slot-mapping", slot_mapping)
    hint("03-slot-mapping")
    progress()

Nothing here knows the answers: predictions and checks ask the real manager. Lessons
find their questions in `questions/` and their exercises in `exercises/`, by name.

Read `prediction.py` with `kinds.py`, then `exercise.py` and `checking.py`; the parts
that these stand on are `limits.py` (run a learner's code and come back), `same.py`,
`shrink.py` and `plain.py` (compare, make small, say what is off), `lookup.py` (find by
name), `look.py` (cards) and `session.py` (what was done in this kernel).
"""

from classroom.checking import check
from classroom.exercise import Exercise
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
    "hint",
    "predict",
    "progress",
]
