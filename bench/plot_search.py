"""The curves of a search-quality report as a picture:  python3 bench/plot_search.py REPORT.json PICTURE.svg"""
import json
import sys

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 216, 64, 52
INK, MUTED, GRID = '#1f2328', '#59636e', '#e3e6ea'
SERIES = (('inherited', 'cost model of other tasks', '#1a7f5a'), ('model', 'cost model of its own', '#2a78d6'),
          ('random', 'random sampling', '#d9622b'))


def ticks(low, high, steps=(1, 2, 5, 10, 20, 25)):
    """Round percentages from low to high, at most seven."""
    step = next(s for s in steps if (high - low) / s <= 6)
    first = -(-low // step) * step
    return [first + i * step for i in range(int((high - first) // step) + 1)]


class Chart:
    def __init__(self, report):
        self.report = report
        self.trials = report['trials']
        curves = report['curves'].values()
        # The first candidate is the default schedule; the axis begins a little below the worst mean after it.
        worst = min(point[0] for curve in curves for point in curve[3:])
        self.low = max(0.0, 100 * worst - 2)
        self.parts = []

    def x(self, trial):
        return LEFT + (trial - 1) / (self.trials - 1) * (WIDTH - LEFT - RIGHT)

    def y(self, percent):
        clipped = max(self.low, percent)
        return HEIGHT - BOTTOM - (clipped - self.low) / (100 - self.low) * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, words, size=13, fill=MUTED, anchor='start', weight='normal'):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{words}</text>')

    def axes(self):
        for percent in ticks(self.low, 100):
            y = self.y(percent)
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
            self.text(LEFT - 8, y + 4, f'{percent:g}%', anchor='end')
        for quarter in range(5):
            trial = max(1, round(self.trials * quarter / 4))
            self.text(self.x(trial), HEIGHT - BOTTOM + 20, trial, anchor='middle')
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, 'measured candidates of a task', anchor='middle')

    def curve(self, points, colour):
        mean = ' '.join(f'{self.x(i + 1):.1f},{self.y(100 * mean):.1f}' for i, (mean, _, _) in enumerate(points))
        self.parts.append(f'<polyline points="{mean}" fill="none" stroke="{colour}" stroke-width="2"/>')

    def labels(self):
        """The name of each curve at its end, kept apart."""
        ends = [(self.y(100 * self.report['curves'][key][-1][0]), name, colour, self.report['curves'][key][-1][0])
                for key, name, colour in SERIES]
        last = -100
        for y, name, colour, mean in sorted(ends):
            y = max(y, last + 34)
            self.text(WIDTH - RIGHT + 10, y + 4, name, fill=colour, weight='600')
            self.text(WIDTH - RIGHT + 10, y + 19, f'{100 * mean:.1f}% at the end', size=12)
            last = y

    def svg(self):
        report = self.report
        self.text(LEFT, 26, f'Speed found against trials, {len(report["tasks"])} tasks of {report["model"]}', 16, INK, weight='600')
        self.text(LEFT, 46, f'share of the fastest schedule known; mean over tasks and seeds ({report["seeds"]} each)', 12)
        self.axes()
        for key, _, colour in SERIES:
            self.curve(report['curves'][key], colour)
        self.labels()
        body = '\n'.join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                f'font-family="system-ui, sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    with open(sys.argv[2], 'w') as file:
        file.write(Chart(report).svg())


main()
