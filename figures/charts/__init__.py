"""Charts: experiments drawn by matplotlib, in the colours of the block maps.

`chart.py` is what all of them stand on: a `Chart` is made of rows, draws them, and
gives them as a table. Each other module draws one kind of experiment.
"""

from figures.charts.chart import COLOUR, Cell, Chart, make_chart

__all__ = ["COLOUR", "Cell", "Chart", "make_chart"]
