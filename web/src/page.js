// Draws figures when they have a width, and again when the selection or the window changes.

export class Page {
  constructor(report, selection) {
    this.report = report;
    this.selection = selection;
    this.figures = [];
    this.ids = new Set();
    this.width = 0;
    selection.onChange(() => this.drawAll());
    new ResizeObserver(() => this.resized()).observe(document.body);
    addEventListener("beforeprint", () => this.drawAll(true));
    addEventListener("afterprint", () => this.drawAll());
  }

  uniqueId(wish) {
    let id = wish;
    for (let n = 2; this.ids.has(id); ++n) id = `${wish}-${n}`;
    this.ids.add(id);
    return id;
  }

  /** Returns a function that draws the figure again. */
  register(figure) {
    this.figures.push(figure);
    const redraw = () =>
      figure.element.isConnected && figure.paint(figure.place.clientWidth || figure.paper);
    return redraw;
  }

  drawAll(onPaper = false) {
    for (const figure of this.figures)
      figure.paint(onPaper ? figure.paper : figure.place.clientWidth || figure.paper);
  }

  resized() {
    const width = document.documentElement.clientWidth;
    if (width === this.width) return;
    this.width = width;
    this.drawAll();
  }
}
