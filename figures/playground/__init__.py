"""The playground: a living block manager with buttons, undo, scenarios and files.

To read it, begin with what can be asked and end with the widget:

1. `commands.py`: what can be asked, as small values: a `Pool`, a `Command`.
2. `engine.py`: a real manager carries a command out.
3. `moments.py`: what happened, as one frame and one sentence.
4. `sense.py`: why a command can't be done at a moment.
5. `session.py`: a list of commands, and a place in it.
6. `scenarios.py`: ready-made sessions.
7. `file.py`: a session as JSON, and back.
8. `desk.py`: undo and redo, over several sessions.
9. `workbench.py`: what each button and field does.
10. `page.py`: the controls as HTML; `buttons.py`: what each of them shows now.
11. `playground.py`: the widget.

Each needs only those before it. None before the last knows of widgets.
"""

from figures.playground.commands import CantDo, Command, Pool
from figures.playground.file import BadLog
from figures.playground.playground import Playground
from figures.playground.scenarios import SCENARIOS, Scenario
from figures.playground.session import Session

__all__ = [
    "SCENARIOS",
    "BadLog",
    "CantDo",
    "Command",
    "Playground",
    "Pool",
    "Scenario",
    "Session",
]
