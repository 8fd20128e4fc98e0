"""Four ways to give memory to the same requests, drawn one below the other.

`film.py` runs them and puts each step into words, `draw.py` draws it, `page.py` has the
HTML around it, and `widget.py` is `Reservations`.
"""

from figures.reservations.draw import reservations_svg
from figures.reservations.film import ReservationFilm
from figures.reservations.widget import Reservations

__all__ = ["ReservationFilm", "Reservations", "reservations_svg"]
