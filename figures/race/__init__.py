"""A race of allocation policies, drawn: three pools beside one time axis.

`film.py` runs the race and puts each step into words, `draw.py` draws it, `page.py`
has the HTML around it, and `widget.py` is `PolicyRace`.
"""

from figures.race.draw import race_svg
from figures.race.film import RaceFilm
from figures.race.widget import JOBS, PolicyRace

__all__ = ["JOBS", "PolicyRace", "RaceFilm", "race_svg"]
