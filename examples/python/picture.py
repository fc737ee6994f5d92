"""Small pictures as SVG, without any package: bars and curves."""
from html import escape

COLORS = ("#1f6fb4", "#d1602b", "#3a8f4d", "#8457a5", "#7d7d7d", "#b8962e")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 340, 64, 44, 150, 48


class Picture:
    """A frame with a title and a vertical axis from `low` to `high`."""

    def __init__(self, title, label, low, high):
        self.low, self.high, self.parts = low, high, []
        self.text(LEFT, 24, title, size=15, weight="bold")
        self.text(16, (TOP + HEIGHT - BOTTOM) / 2, label, anchor="middle", turn=-90)
        for i in range(5):
            value = low + (high - low) * i / 4
            y = self.y(value)
            self.line(LEFT, y, WIDTH - RIGHT, y, "#dddddd")
            self.text(LEFT - 8, y + 4, f"{value:.2g}", anchor="end")

    def y(self, value):
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def x(self, share):
        return LEFT + share * (WIDTH - RIGHT - LEFT)

    def line(self, x1, y1, x2, y2, color, width=1, dash=""):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
                          f'stroke-width="{width}"{f" stroke-dasharray={dash!r}" if dash else ""}/>')

    def text(self, x, y, text, anchor="start", size=12, weight="normal", turn=0):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                          f'font-weight="{weight}"{turned}>{escape(text)}</text>')

    def legend(self, names):
        for i, name in enumerate(names):
            y = TOP + 10 + 20 * i
            self.line(WIDTH - RIGHT + 12, y, WIDTH - RIGHT + 34, y, COLORS[i % len(COLORS)], 4)
            self.text(WIDTH - RIGHT + 40, y + 4, name)

    def bars(self, groups):
        """`groups`: lists of (name, value), one color each."""
        all_bars = [(color, name, value) for color, group in enumerate(groups) for name, value in group]
        step = 1 / len(all_bars)
        for i, (color, name, value) in enumerate(all_bars):
            x1, x2, y = self.x((i + 0.15) * step), self.x((i + 0.85) * step), self.y(value)
            self.parts.append(f'<rect x="{x1:.1f}" y="{y:.1f}" width="{x2 - x1:.1f}" '
                              f'height="{HEIGHT - BOTTOM - y:.1f}" fill="{COLORS[color]}"/>')
            self.text((x1 + x2) / 2, HEIGHT - BOTTOM + 16, name, anchor="middle", size=11)

    def curves(self, xs, curves, label):
        """`curves`: lists of values at `xs`, one color each."""
        low, high = min(xs), max(xs)
        for i in range(5):
            value = low + (high - low) * i / 4
            self.text(self.x(i / 4), HEIGHT - BOTTOM + 18, f"{value:.2g}", anchor="middle")
        self.text(self.x(0.5), HEIGHT - 8, label, anchor="middle")
        for color, values in enumerate(curves):
            points = " ".join(f"{self.x((x - low) / (high - low)):.1f},{self.y(v):.1f}" for x, v in zip(xs, values))
            self.parts.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[color]}" stroke-width="2"/>')

    def mark(self, share, text):
        """A vertical line."""
        self.line(self.x(share), TOP, self.x(share), HEIGHT - BOTTOM, "#555555", 1, "4 3")
        self.text(self.x(share) + 4, TOP + 12, text, size=11)

    def save(self, path):
        body = "\n".join(self.parts)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                       f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, sans-serif">\n'
                       f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')
        print(f"wrote {path}")
