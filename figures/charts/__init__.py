"""Charts: experiments drawn by matplotlib, in the colours of the block maps.

`chart.py` is what all of them stand on: a `Chart` is made of rows, draws them, and
gives them as a table. `form.py` says how they look; its `SERIES` tell series apart by
pattern, marker and stroke. Each other module draws one kind of experiment.
"""

from figures.charts.chart import COLOUR, SERIES, Cell, Chart, make_chart

__all__ = ["COLOUR", "SERIES", "Cell", "Chart", "make_chart"]
